// Files of the repository are not pages of the book. Links to them lead to the repository.
for (const link of document.querySelectorAll("main a[href^='../../']")) {
  const path = link.getAttribute("href").slice("../../".length).replace(/\.html(?=#|$)/, ".md");
  link.href = "https://github.com/tilewright/tilewright/blob/main/" + path;
}
