//! Lists of candidates that ship: values of constants that were the fastest for some sizes on a device. `choose` takes a list by its
//! device and name.

/// The files, one for each device.
const FILES: &[(&str, &str)] = &[("h200", include_str!("candidates/h200.txt"))];

/// A list of candidates.
#[derive(Debug)]
pub struct Candidates {
    /// Its device and name: `h200::linear`.
    pub name: String,
    /// The names of its columns.
    pub columns: Vec<&'static str>,
    /// Its rows.
    pub rows: Vec<Vec<i64>>,
}

impl Candidates {
    /// All lists.
    ///
    /// ```
    /// use tilewright_program::launch::Candidates;
    /// let all = Candidates::all();
    /// let linear = all.iter().find(|list| list.name == "h200::linear").unwrap();
    /// assert_eq!(linear.columns[..2], ["BM", "BN"]);
    /// assert!(linear.rows.iter().all(|row| row.len() == linear.columns.len()));
    /// ```
    pub fn all() -> Vec<Candidates> {
        FILES.iter().flat_map(|(device, text)| read(device, text)).collect()
    }

    /// The rows in the first `count` columns, each once.
    pub fn first_columns(&self, count: usize) -> Vec<Vec<i64>> {
        let mut rows: Vec<Vec<i64>> = Vec::new();
        for row in self.rows.iter().filter_map(|row| row.get(..count)) {
            if !rows.iter().any(|known| known == row) {
                rows.push(row.to_vec());
            }
        }
        rows
    }
}

fn read(device: &str, text: &'static str) -> Vec<Candidates> {
    let mut lists: Vec<Candidates> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match (line.split_once(": "), lists.last_mut()) {
            (Some((name, columns)), _) => lists.push(Candidates {
                name: format!("{device}::{name}"),
                columns: columns.split(' ').collect(),
                rows: Vec::new(),
            }),
            (None, Some(list)) => list.rows.push(line.split(' ').flat_map(str::parse).collect()),
            (None, None) => {}
        }
    }
    lists
}
