/// Most memory that this process ever had at once, in bytes (`VmHWM` of `/proc/self/status`); `None` where the system
/// does not tell.
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_with_what_is_used() {
        let before = peak_memory().unwrap();
        let block = std::hint::black_box(vec![1u8; 64 << 20]);
        assert!(peak_memory().unwrap() >= before.max(block.len() as u64));
    }
}
