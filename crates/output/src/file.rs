//! Files that are written.

use crate::is_standard;
use crate::pending::Pending;
use std::ffi::CString;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Why a file is not written: its name, what the system says, and what to do.
#[derive(Debug, thiserror::Error)]
pub struct OutputError {
    /// The file; `-` is standard output.
    pub path: PathBuf,
    /// Why.
    pub error: io::Error,
}

impl OutputError {
    /// For `map_err`: an error about this file.
    pub fn of(path: &Path) -> impl Fn(io::Error) -> OutputError + '_ {
        move |error| OutputError { path: path.to_owned(), error }
    }

    /// What the user can do.
    fn advice(&self) -> Option<String> {
        Some(match self.error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => String::from("free some space, or write to another disk"),
            io::ErrorKind::FileTooLarge => String::from("raise the limit (ulimit -f), or write less"),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => String::from("name a place where you may write"),
            io::ErrorKind::IsADirectory => String::from("name a file in it"),
            io::ErrorKind::NotFound if folder_of(&self.path).exists() => String::from("name a place where files can be made"),
            io::ErrorKind::NotFound => format!("make the folder first: mkdir -p {}", folder_of(&self.path).display()),
            io::ErrorKind::ResourceBusy => String::from("name another folder, or wait for its end"),
            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => String::from("name a folder, or a place where there is nothing"),
            _ => return None,
        })
    }
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match is_standard(&self.path) {
            true => write!(f, "standard output: {}", self.error),
            false => write!(f, "{}: {}", self.path.display(), self.error),
        }?;
        self.advice().map_or(Ok(()), |advice| write!(f, "; {advice}"))
    }
}

/// A file that is being written. An ordinary one takes its place in [`OutputFile::commit`], complete; without that (an
/// error, a panic, a signal) the place is as it was before. A device, a pipe or standard output is written into as it
/// comes.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    file: File,
    way: WriteMethod,
}

#[derive(Debug)]
enum WriteMethod {
    /// Written where it is.
    Direct,
    /// Without a name until it is complete.
    Unnamed { place: PathBuf },
    /// With a temporary name, where the file system has no files without.
    Named { place: PathBuf, name: Pending },
    /// Kept, and copied into `target` when it is complete.
    Kept { target: File },
}

impl OutputFile {
    /// A file that is written from its beginning to its end.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(path: &Path) -> Result<OutputFile, OutputError> {
        let fail = OutputError::of(path);
        if is_standard(path) {
            let file = io::stdout().as_fd().try_clone_to_owned().map_err(&fail)?;
            return Ok(OutputFile { path: path.to_owned(), file: File::from(file), way: WriteMethod::Direct });
        }
        open(path, true).map(|(file, way)| OutputFile { path: path.to_owned(), file, way }).map_err(fail)
    }

    /// One that is also read, or written at other places than its end. What cannot do that gets a copy when it is
    /// complete.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create_seekable(path: &Path) -> Result<OutputFile, OutputError> {
        let OutputFile { path, file, way } = OutputFile::create(path)?;
        match way {
            WriteMethod::Direct => {
                let kept = tempfile::tempfile().map_err(OutputError::of(&std::env::temp_dir()))?;
                Ok(OutputFile { path, file: kept, way: WriteMethod::Kept { target: file } })
            }
            way => Ok(OutputFile { path, file, way }),
        }
    }

    /// What is being written.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// It is complete.
    ///
    /// # Errors
    /// It cannot take its place.
    pub fn commit(self) -> Result<(), OutputError> {
        let OutputFile { path, mut file, way } = self;
        let result = match way {
            WriteMethod::Direct => Ok(()),
            WriteMethod::Unnamed { place } => name(&file, &place),
            WriteMethod::Named { place, name } => name.rename(&place),
            WriteMethod::Kept { mut target } => file.rewind().and_then(|()| io::copy(&mut file, &mut target)).map(|_| ()),
        };
        result.map_err(OutputError::of(&path))
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for OutputFile {
    fn seek(&mut self, place: SeekFrom) -> io::Result<u64> {
        self.file.seek(place)
    }
}

/// Writes a whole file.
///
/// # Errors
/// It cannot be made, filled, or take its place.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), OutputError> {
    let mut output = OutputFile::create(path)?;
    output.write_all(content.as_ref()).map_err(OutputError::of(path))?;
    output.commit()
}

/// Makes a folder for results, and those above it. Until this process ends no other one may: two runs would mix their
/// results.
///
/// # Errors
/// It cannot be made, is not a folder, or another process writes its results there.
pub fn create_folder(path: &Path) -> Result<(), OutputError> {
    if is_standard(path) {
        let error = io::Error::new(io::ErrorKind::NotADirectory, "several files do not go there");
        return Err(OutputError { path: path.to_owned(), error });
    }
    fs::create_dir_all(path).and_then(|()| claim(path)).map_err(OutputError::of(path))
}

/// Keeps other processes from a folder. A file system without locks lets them in.
fn claim(folder: &Path) -> io::Result<()> {
    static CLAIMED: Mutex<Vec<(u64, u64, File)>> = Mutex::new(Vec::new());
    let opened = File::open(folder)?;
    let status = opened.metadata()?;
    let mut claimed = CLAIMED.lock().unwrap_or_else(PoisonError::into_inner);
    if claimed.iter().any(|&(device, inode, _)| (device, inode) == (status.dev(), status.ino())) {
        return Ok(());
    }
    // SAFETY: a descriptor of ours; it is closed, and the lock gone, when the process ends or becomes another one.
    if unsafe { libc::flock(opened.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        let error = io::Error::last_os_error();
        if error.kind() == io::ErrorKind::WouldBlock {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "another run writes its results there"));
        }
    }
    claimed.push((status.dev(), status.ino(), opened));
    Ok(())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Opens the file that will become `path`; `unnamed`: without a name if possible.
fn open(path: &Path, unnamed: bool) -> io::Result<(File, WriteMethod)> {
    let here = fs::metadata(path).ok();
    if let Some(here) = &here
        && !here.is_file()
    {
        return match here.is_dir() {
            true => Err(io::ErrorKind::IsADirectory.into()),
            false => OpenOptions::new().write(true).open(path).map(|file| (file, WriteMethod::Direct)),
        };
    }
    let place = resolve(path)?;
    if place.starts_with("/proc") || place.starts_with("/dev/fd") {
        // An open file (/dev/stdout): others go on writing behind us.
        return OpenOptions::new().append(true).open(path).map(|file| (file, WriteMethod::Direct));
    }
    if here.is_some() {
        // What may not be written is not replaced either.
        OpenOptions::new().write(true).open(&place)?;
    }
    let opened = beside(&place, unnamed);
    let (file, way) = match opened {
        // A file may be written although its folder may not.
        Err(error) if here.is_some() && matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem) => {
            return OpenOptions::new().write(true).truncate(true).open(&place).map(|file| (file, WriteMethod::Direct));
        }
        opened => opened?,
    };
    if let Some(here) = here {
        // Not every file system can.
        let _ = file.set_permissions(here.permissions());
    }
    Ok((file, way))
}

/// A new file in the folder of `place`.
fn beside(place: &Path, unnamed: bool) -> io::Result<(File, WriteMethod)> {
    let folder = folder_of(place);
    // 0o666 less the user's mask, as for every new file.
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o666);
    if unnamed {
        match options.clone().custom_flags(libc::O_TMPFILE).open(folder) {
            Ok(file) => return Ok((file, WriteMethod::Unnamed { place: place.to_owned() })),
            // NFS and others do not know it; kernels that do not know the flag see a folder.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)) => {}
            Err(error) => return Err(error),
        }
    }
    let name = Pending::beside(place)?;
    let file = options.create_new(true).open(name.path())?;
    Ok((file, WriteMethod::Named { place: place.to_owned(), name }))
}

/// Where symbolic links lead, also to what is not there yet; as far as links of open files in /proc.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..40 {
        let is_link = fs::symlink_metadata(&path).is_ok_and(|here| here.is_symlink());
        if !is_link || path.starts_with("/proc") {
            return Ok(path);
        }
        let target = fs::read_link(&path)?;
        let folder = folder_of(&path).canonicalize()?;
        if folder.starts_with("/proc") {
            return Ok(folder.join(path.file_name().unwrap_or_default()));
        }
        path = folder.join(target);
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}

/// Gives a file without a name its place.
fn name(file: &File, place: &Path) -> io::Result<()> {
    match link(file, place) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // There is no call that links and replaces.
            let name = Pending::beside(place)?;
            link(file, name.path())?;
            name.rename(place)
        }
        result => result,
    }
}

fn link(file: &File, place: &Path) -> io::Result<()> {
    let source = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let place = CString::new(place.as_os_str().as_bytes())?;
    // SAFETY: two strings that end in 0.
    let failed = unsafe { libc::linkat(libc::AT_FDCWD, source.as_ptr(), libc::AT_FDCWD, place.as_ptr(), libc::AT_SYMLINK_FOLLOW) } != 0;
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
    use std::process::Command;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// A character device that is full, as /dev/full, or that one.
    fn full_device(folder: &Path) -> PathBuf {
        let own = folder.join("full");
        let made = Command::new("mknod").arg(&own).args(["c", "1", "7"]).output().is_ok_and(|output| output.status.success());
        if made { own } else { PathBuf::from("/dev/full") }
    }

    #[test]
    fn a_file_appears_complete_or_not_at_all() {
        for unnamed in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a");
            let begin = |text: &str| {
                let (file, way) = open(&path, unnamed).unwrap();
                let mut output = OutputFile { path: path.clone(), file, way };
                output.write_all(text.as_bytes()).unwrap();
                output
            };
            drop(begin("never"));
            assert_eq!(names(folder.path()), [""; 0], "dropped, unnamed {unnamed}");
            begin("one").commit().unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
            let second = begin("two");
            assert_eq!(fs::read_to_string(&path).unwrap(), "one");
            second.commit().unwrap();
            assert_eq!((fs::read_to_string(&path).unwrap().as_str(), names(folder.path()).len()), ("two", 1));
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640, "a replaced file keeps its mode");
        }
    }

    #[test]
    fn devices_and_pipes_are_written_into() {
        let folder = tempfile::tempdir().unwrap();
        let full = full_device(folder.path());
        let error = write(&full, "text").unwrap_err();
        assert_eq!(error.error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().ends_with("; free some space, or write to another disk"), "{error}");
        assert!(fs::metadata(&full).unwrap().file_type().is_char_device());

        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        // Open for both, so that the pipe has a reader all the time, also while other tests start processes.
        let mut reader = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        for seekable in [false, true] {
            let mut output = if seekable { OutputFile::create_seekable(&pipe) } else { OutputFile::create(&pipe) }.unwrap();
            output.write_all(b"xhrough").unwrap();
            if seekable {
                output.seek(SeekFrom::Start(0)).unwrap();
                output.write_all(b"t").unwrap();
            }
            output.commit().unwrap();
            let mut text = [0; 16];
            let length = reader.read(&mut text).unwrap();
            assert_eq!(&text[..length], if seekable { b"through" } else { b"xhrough" });
        }
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    }

    #[test]
    fn links_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        fs::create_dir(place("elsewhere")).unwrap();
        symlink("elsewhere/target", place("link")).unwrap();
        symlink("link", place("second")).unwrap();
        for (path, text) in [("link", "new"), ("second", "replaced"), ("elsewhere/target", "direct")] {
            write(&place(path), text).unwrap();
            assert!(
                fs::symlink_metadata(place("link")).unwrap().is_symlink() && fs::symlink_metadata(place("second")).unwrap().is_symlink()
            );
            assert_eq!(fs::read_to_string(place("elsewhere/target")).unwrap(), text);
        }
        assert_eq!(
            (names(folder.path()), names(&place("elsewhere")).len()),
            (["elsewhere", "link", "second"].map(String::from).to_vec(), 1)
        );
        symlink("round", place("round")).unwrap();
        assert!(write(&place("round"), "").unwrap_err().error.raw_os_error() == Some(libc::ELOOP));
    }

    #[test]
    fn an_open_file_is_written_into() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut shared = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        shared.write_all(b"before ").unwrap();
        write(Path::new(&format!("/proc/self/fd/{}", shared.as_raw_fd())), "ours ").unwrap();
        shared.write_all(b"after").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "before ours after");
    }

    #[test]
    fn errors_name_the_file_and_say_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let message = |path: &Path| write(path, "").unwrap_err().to_string();
        let missing = folder.path().join("not/there");
        assert!(message(&missing).ends_with(&format!("; make the folder first: mkdir -p {}", folder.path().join("not").display())));
        assert!(message(&missing).starts_with(&missing.display().to_string()));
        assert!(message(folder.path()).ends_with("; name a file in it"));
        assert!(create_folder(Path::new("-")).is_err() && !Path::new("-").exists());
    }

    #[test]
    fn a_folder_for_results_belongs_to_one_process() {
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [own, other] = folders.each_ref().map(tempfile::TempDir::path);
        create_folder(own).unwrap();
        create_folder(own).unwrap();
        let held = File::open(other).unwrap();
        // SAFETY: an open descriptor; one that was opened elsewhere is another owner, as that of another process.
        assert_eq!(unsafe { libc::flock(held.as_raw_fd(), libc::LOCK_EX) }, 0);
        let error = create_folder(other).unwrap_err().to_string();
        assert!(error.ends_with(": another run writes its results there; name another folder, or wait for its end"), "{error}");
        drop(held);
        create_folder(other).unwrap();
    }

    /// The other half of the next test: writes, and waits to be killed.
    #[test]
    fn killed() {
        let Some(path) = std::env::var_os("NARROWS_OUTPUT_KILLED") else { return };
        let (mut file, _way) = open(Path::new(&path), false).unwrap();
        file.write_all(b"half").unwrap();
        let _ = io::stdout().write_all(b"\nwriting\n");
        loop {
            std::thread::park();
        }
    }

    #[test]
    fn a_signal_leaves_nothing_behind() {
        use std::io::{BufRead, BufReader};
        use std::os::unix::process::ExitStatusExt;
        for signal in SIGNALS {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a");
            // Tests may run in the background, where shells have SIGINT ignored.
            let mut child = Command::new("env")
                .arg("--default-signal")
                .arg(std::env::current_exe().unwrap())
                .args(["--exact", "file::tests::killed", "--nocapture"])
                .env("NARROWS_OUTPUT_KILLED", &path)
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            let lines = BufReader::new(child.stdout.take().unwrap()).lines();
            assert!(lines.map(Result::unwrap).any(|line| line == "writing"));
            assert_eq!(names(folder.path()).len(), 1);
            // SAFETY: our own child, which has not been waited for.
            unsafe { libc::kill(child.id() as i32, signal) };
            assert_eq!(child.wait().unwrap().signal(), Some(signal));
            assert_eq!(names(folder.path()), [""; 0], "signal {signal}");
        }
    }

    const SIGNALS: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
}
