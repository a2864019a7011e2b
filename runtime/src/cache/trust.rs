//! Whether binaries in a folder can be trusted. They are loaded onto a device and run: only this user and
//! root may have written them. On systems other than Unix a user's folders are assumed to be the user's own.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why a file or folder is not trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Distrust {
    /// The folder, link or file that others could replace or change.
    path: PathBuf,
    why: Why,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(not(unix), allow(dead_code))]
enum Why {
    /// It belongs to another user, with this id.
    Owner(u32),
    /// Its mode lets others write.
    Mode(u32),
    /// A chain of links that does not end.
    Links,
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.why {
            Why::Owner(user) => write!(f, "{path} belongs to another user, number {user}"),
            Why::Mode(mode) => write!(f, "other users may write to {path}, whose mode is {mode:o}"),
            Why::Links => write!(f, "{path} is a link that leads nowhere"),
        }
    }
}

impl Distrust {
    /// The remedy.
    pub(super) fn help(&self, variable: &str) -> String {
        match self.why {
            Why::Mode(_) => {
                format!("`chmod go-w {}`, or set {variable} to a folder of your own", self.path.display())
            }
            Why::Owner(_) | Why::Links => format!("set {variable} to a folder of your own"),
        }
    }
}

#[cfg(not(unix))]
mod system {
    use super::*;

    pub(in super::super) fn folder(folder: &Path) -> Result<bool, Distrust> {
        Ok(folder.is_dir())
    }

    pub(in super::super) fn file(_: &Path, _: &std::fs::Metadata) -> Result<(), Distrust> {
        Ok(())
    }
}

#[cfg(unix)]
mod system {
    #![allow(unsafe_code)]

    use std::collections::VecDeque;
    use std::ffi::OsString;
    use std::fs::{self, Metadata};
    use std::os::unix::fs::MetadataExt;
    use std::path::Component;

    use super::*;

    const OTHERS_WRITE: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    const ROOT: u32 = 0;
    /// The link limit of common systems.
    const MOST_LINKS: usize = 40;

    /// The effective user: a program that runs as another user must not load that user's binaries.
    fn user() -> u32 {
        // SAFETY: every Unix has it, with this type, and it cannot fail.
        unsafe extern "C" {
            safe fn geteuid() -> u32;
        }
        geteuid()
    }

    fn owned(path: &Path, about: &Metadata) -> Result<(), Distrust> {
        if [ROOT, user()].contains(&about.uid()) {
            return Ok(());
        }
        Err(Distrust { path: path.to_path_buf(), why: Why::Owner(about.uid()) })
    }

    fn closed(path: &Path, about: &Metadata) -> Result<(), Distrust> {
        owned(path, about)?;
        if about.mode() & OTHERS_WRITE == 0 {
            return Ok(());
        }
        Err(Distrust { path: path.to_path_buf(), why: Why::Mode(about.mode() & 0o7777) })
    }

    /// A folder along the path. In a sticky folder nobody can replace files of others.
    fn passed(path: &Path, about: &Metadata) -> Result<(), Distrust> {
        let sticky = about.uid() == ROOT && about.mode() & STICKY != 0;
        if sticky { Ok(()) } else { closed(path, about) }
    }

    /// Can no other user write files into a folder, or replace it? Every folder along the path is checked,
    /// and along the paths of links. Returns whether the folder exists. A missing folder must not be read:
    /// another user may have created it meanwhile.
    pub(in super::super) fn folder(folder: &Path) -> Result<bool, Distrust> {
        let names = |path: &Path| -> Vec<OsString> {
            let name = |part: Component<'_>| match part {
                Component::RootDir | Component::Prefix(_) | Component::CurDir => None,
                Component::ParentDir | Component::Normal(_) => Some(part.as_os_str().to_owned()),
            };
            path.components().filter_map(name).collect()
        };
        // A relative path without a current folder has no meaning.
        let Ok(current) = std::env::current_dir() else { return Ok(false) };
        let folder = current.join(folder);
        let (mut at, mut links) = (PathBuf::from("/"), 0);
        let mut left: VecDeque<OsString> = names(&folder).into();
        while let Some(name) = left.pop_front() {
            if let Ok(about) = fs::symlink_metadata(&at) {
                passed(&at, &about)?;
            }
            if name == ".." {
                at.pop();
                continue;
            }
            let next = at.join(name);
            let Ok(about) = fs::symlink_metadata(&next) else { return Ok(false) };
            if !about.is_symlink() {
                at = next;
                continue;
            }
            // In a sticky folder only owners replace links, so owners matter.
            owned(&next, &about)?;
            links += 1;
            let Ok(target) = fs::read_link(&next) else { return Ok(false) };
            if links > MOST_LINKS {
                return Err(Distrust { path: folder, why: Why::Links });
            }
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            names(&target).into_iter().rev().for_each(|name| left.push_front(name));
        }
        match fs::symlink_metadata(&at) {
            Ok(about) => closed(&at, &about).map(|()| true),
            Err(_) => Ok(false),
        }
    }

    /// Has no other user written the file? Its folder was checked before.
    pub(in super::super) fn file(path: &Path, about: &Metadata) -> Result<(), Distrust> {
        closed(path, about)
    }
}

pub(super) use system::{file, folder};
