//! What the system says of this process.

/// Bytes of the process that are in RAM; none where the system does not tell (elsewhere than on Linux).
pub(crate) fn resident_bytes() -> Option<u64> {
    resident_bytes_in(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// The same from the text of proc(5)'s `status`, which counts in units of 1024 bytes whatever the page size.
fn resident_bytes_in(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_as_linux_writes_it() {
        assert_eq!(resident_bytes_in("Name:\ttributary\nVmRSS:\t   12340 kB\nRssAnon:\t1 kB\n"), Some(12_340 * 1024));
        assert_eq!(resident_bytes_in("Name:\ttributary\n"), None);
        assert_eq!(resident_bytes_in("VmRSS:\tmuch"), None);
    }
}
