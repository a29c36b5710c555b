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

/// A limit from here on stands for none: version 1 of control groups writes a number close to 2^63 where version 2
/// writes `max`.
const NO_LIMIT: u64 = 1 << 60;

/// Bytes that a control group, or one around it, allows this process in all. `None` where none has a limit.
pub fn group_limit() -> Option<u64> {
    lowest_limit(&fs::read_to_string("/proc/self/cgroup").ok()?, Path::new("/sys/fs/cgroup"))
}

/// The lowest limit below `root` of the groups that `/proc/self/cgroup` names. Machines may have both versions of
/// control groups, and memory in either.
fn lowest_limit(groups: &str, root: &Path) -> Option<u64> {
    let of_version_2 = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    let of_version_1 = groups.lines().find_map(memory_group);
    let limits = [
        of_version_2.and_then(|own| lowest_around(root, own, "memory.max")),
        of_version_1.and_then(|own| lowest_around(&root.join("memory"), own, "memory.limit_in_bytes")),
    ];
    limits.into_iter().flatten().min()
}

/// The group in a line of version 1 that names the controller of memory: `4:memory:/GROUP`, perhaps with others.
fn memory_group(line: &str) -> Option<&str> {
    let (controllers, group) = line.split_once(':')?.1.split_once(":/")?;
    controllers.split(',').any(|controller| controller == "memory").then_some(group)
}

/// The lowest limit of a group below `root` and of those around it. In a container the group may be named as the
/// machine outside names it; `root` is the container's own then.
fn lowest_around(root: &Path, group: &str, file: &str) -> Option<u64> {
    let folder = root.join(group.trim_end());
    let around = folder.ancestors().take_while(|folder| folder.starts_with(root));
    let limits = around.filter_map(|folder| fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok());
    limits.filter(|limit| *limit < NO_LIMIT).min()
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

    #[test]
    fn the_first_version_of_control_groups_counts_too() {
        const FILE: &str = "memory.limit_in_bytes";
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("memory/docker/orco");
        fs::create_dir_all(&own).unwrap();
        let groups = "5:cpu,cpuacct:/other\n4:hugetlb,memory:/docker/orco\n1:name=memory:/other\n0::/\n";
        let limit = || lowest_limit(groups, root.path());
        assert_eq!(limit(), None);
        fs::write(own.join(FILE), "9223372036854771712\n").unwrap();
        assert_eq!(limit(), None);
        fs::write(own.join(FILE), "536870912\n").unwrap();
        assert_eq!(limit(), Some(512 << 20));
        fs::write(root.path().join("memory.max"), "1048576\n").unwrap();
        assert_eq!(limit(), Some(1 << 20), "the lower one of both versions");
        fs::remove_file(root.path().join("memory.max")).unwrap();
        // In a container the folder of its group is the root.
        fs::remove_dir_all(root.path().join("memory/docker")).unwrap();
        fs::write(root.path().join("memory").join(FILE), "268435456\n").unwrap();
        assert_eq!(limit(), Some(256 << 20));
        assert_eq!(lowest_limit("3:cpuset:/\n", root.path()), None);
    }
}
