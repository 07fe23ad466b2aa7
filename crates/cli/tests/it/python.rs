//! What the binary leaves to the Python package.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// An interpreter that tells what it was asked: the first time whether there is a package, then to run it.
#[test]
fn commands_of_the_package_go_to_its_interpreter() {
    let folder = tempfile::tempdir().unwrap();
    let python = folder.path().join("python3");
    for (found, code) in [(0, Some(7)), (1, Some(2))] {
        let script = format!("#!/bin/sh\n[ \"$2\" = -m ] || exit {found}\necho \"$@\"\nexit 7\n");
        std::fs::write(&python, script).unwrap();
        std::fs::set_permissions(&python, PermissionsExt::from_mode(0o755)).unwrap();
        let path = format!("{}:/usr/bin:/bin", folder.path().display());
        let arguments = ["compare", "--json", "a b", "c"];
        let output = Command::new(env!("CARGO_BIN_EXE_narrows")).args(arguments).env("PATH", path).output().unwrap();
        let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), code, "{said}");
        if found == 0 {
            assert_eq!(text, "-P -m narrows compare --json a b c\n");
        } else {
            assert!(said.contains("narrows compare is done by the Python package, which is not installed here: pip install"), "{said}");
        }
    }
}
