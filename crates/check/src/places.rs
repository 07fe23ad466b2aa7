//! File and line of a call, from the debug information of the program.

use addr2line::Loader;
use std::collections::BTreeMap;
use std::path::Path;

/// Behind the place of a call that the MPI library itself makes: no fault of the program.
pub const LIBRARY: &str = " (inside the MPI library)";

/// Behind a call.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The file with its code.
    pub object: &'a str,
    /// Of the instruction behind the call, as symbols of the file count.
    pub offset: u64,
}

/// Files with code that were looked at.
#[derive(Default)]
pub struct Places {
    loaders: BTreeMap<String, Option<Loader>>,
}

impl Places {
    /// "ring.c:12", or the file with code and the offset in it.
    pub fn line(&mut self, place: Place<'_>) -> String {
        let loader = self.loaders.entry(place.object.to_owned()).or_insert_with(|| Loader::new(place.object).ok());
        let object = short(place.object);
        let whose = if object.starts_with("libmpi") || object.starts_with("libpmpi") { LIBRARY } else { "" };
        // Before the return address: in the call.
        let location = loader.as_ref().and_then(|loader| loader.find_location(place.offset.saturating_sub(1)).ok().flatten());
        match location.and_then(|location| Some((location.file?.to_owned(), location.line?))) {
            Some((file, line)) => format!("{}:{line}{whose}", short(&file)),
            None => format!("{object}+{:#x}{whose}", place.offset),
        }
    }
}

fn short(path: &str) -> String {
    Path::new(path).file_name().map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned())
}
