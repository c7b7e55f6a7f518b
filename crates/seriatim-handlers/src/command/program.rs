//! Finds the program of a command, or says why it cannot be run.

use std::env;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a program cannot be run.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum NoProgram {
    /// There is none of this name in the PATH.
    #[error("there is no program {0:?} in the PATH")]
    NotInPath(String),
    /// There is none in the PATH, but there is a file of this name in the folder.
    #[error("there is no program {0:?} in the PATH; for the file of that name in {folder}, write \"./{0}\"", folder = .1.display())]
    OnlyInFolder(String, PathBuf),
    /// There is no such file.
    #[error("there is no file {}", .0.display())]
    NotThere(PathBuf),
    /// It is a folder or something else that cannot be run.
    #[error("{} is not a file", .0.display())]
    NotAFile(PathBuf),
    /// It may not be run.
    #[error("{} is not executable: make it so with chmod +x, or put its interpreter before it", .0.display())]
    NotExecutable(PathBuf),
}

/// Where the program is. With a slash in its name it is looked for from `folder`, else in the PATH.
pub fn find(program: &str, folder: &Path) -> Result<PathBuf, NoProgram> {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    if program.contains('/') {
        let path = folder.join(program);
        return usable(&path).map(|()| path);
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    let candidates: Vec<PathBuf> =
        env::split_paths(&folders).map(|entry| folder.join(entry).join(program)).collect();
    if let Some(found) = candidates.iter().find(|path| usable(path).is_ok()) {
        return Ok(found.clone());
    }
    // One that is there and may not be run says more than that there is none.
    let unusable = candidates.iter().find_map(|path| match usable(path) {
        Err(NoProgram::NotThere(_)) | Ok(()) => None,
        Err(problem) => Some(problem),
    });
    Err(unusable.unwrap_or_else(|| match folder.join(program).is_file() {
        true => NoProgram::OnlyInFolder(program.to_owned(), folder),
        false => NoProgram::NotInPath(program.to_owned()),
    }))
}

fn usable(path: &Path) -> Result<(), NoProgram> {
    match path.metadata() {
        Err(_) => Err(NoProgram::NotThere(path.to_owned())),
        Ok(file) if !file.is_file() => Err(NoProgram::NotAFile(path.to_owned())),
        Ok(file) if file.permissions().mode() & 0o111 == 0 => Err(NoProgram::NotExecutable(path.to_owned())),
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_cannot_be_run_is_told_why() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("handle.sh");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        assert_eq!(find("./no.sh", folder.path()), Err(NoProgram::NotThere(folder.path().join("./no.sh"))));
        let said = find("./handle.sh", folder.path()).unwrap_err().to_string();
        assert!(said.contains("is not executable"), "{said}");
        let said = find("handle.sh", folder.path()).unwrap_err().to_string();
        assert!(said.contains("write \"./handle.sh\""), "{said}");
        assert_eq!(
            find("no-such-program", folder.path()),
            Err(NoProgram::NotInPath("no-such-program".into()))
        );
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find("./handle.sh", folder.path()), Ok(folder.path().join("./handle.sh")));
        assert!(find("sh", folder.path()).is_ok());
    }
}
