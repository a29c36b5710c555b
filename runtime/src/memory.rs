//! How much memory this process may have. Linux tells.

use std::fs;
use std::path::Path;

/// Bytes that this process may have in all: the machine's memory, or less where a control group has a limit. `None`
/// where that is not known.
pub fn limit() -> Option<u64> {
    of_machine("MemTotal").into_iter().chain(group_limit()).min()
}

/// Bytes that programs can still get, without swapping; no more than a control group allows this process in all. `None`
/// where that is not known.
pub fn available() -> Option<u64> {
    of_machine("MemAvailable").map(|bytes| group_limit().map_or(bytes, |limit| bytes.min(limit)))
}

/// A figure of `/proc/meminfo`, in bytes.
fn of_machine(name: &str) -> Option<u64> {
    figure(&fs::read_to_string("/proc/meminfo").ok()?, name)
}

fn figure(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The lowest limit of the control group (version 2) and of those around it.
fn group_limit() -> Option<u64> {
    lowest_limit(&fs::read_to_string("/proc/self/cgroup").ok()?, Path::new("/sys/fs/cgroup"))
}

/// The lowest limit below `root` of the group that `/proc/self/cgroup` names.
fn lowest_limit(groups: &str, root: &Path) -> Option<u64> {
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let folder = root.join(own.trim_end());
    let around = folder.ancestors().take_while(|folder| folder.starts_with(root));
    around.filter_map(|folder| fs::read_to_string(folder.join("memory.max")).ok()?.trim().parse().ok()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_says_how_much_there_is() {
        let meminfo = "MemTotal:         983040 kB\nMemFree: 1 kB\nMemAvailable:  2048 kB\n";
        assert_eq!(figure(meminfo, "MemTotal"), Some(960 << 20));
        assert_eq!(figure(meminfo, "MemAvailable"), Some(2 << 20));
        assert_eq!((figure(meminfo, "Mem"), figure("MemTotal: much\n", "MemTotal")), (None, None));
        #[cfg(target_os = "linux")]
        {
            let (limit, available) = (limit().unwrap(), available().unwrap());
            assert!(limit > 16 << 20 && available <= limit, "{available} of {limit}");
        }
    }

    #[test]
    fn the_lowest_limit_around_a_control_group_counts() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("system.slice/orco.service");
        fs::create_dir_all(&own).unwrap();
        let limit = || lowest_limit("1:cpu:/other\n0::/system.slice/orco.service\n", root.path());
        assert_eq!(limit(), None);
        fs::write(own.join("memory.max"), "max\n").unwrap();
        assert_eq!(limit(), None);
        fs::write(root.path().join("memory.max"), "536870912\n").unwrap();
        assert_eq!(limit(), Some(512 << 20));
        fs::write(own.join("memory.max"), "1048576\n").unwrap();
        assert_eq!(limit(), Some(1 << 20));
        assert_eq!(lowest_limit("1:cpu:/other\n", root.path()), None);
    }
}
