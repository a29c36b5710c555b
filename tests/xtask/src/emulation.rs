//! Programs for aarch64 on this machine: QEMU's user mode, which the kernel starts for them. The kernel is told so in a
//! user namespace of its own, so that nothing of it is seen outside and nothing stays. Needs root and Linux 6.7.

use std::path::Path;
use std::process::Command;

/// Maps every user to itself in the namespace that this process is about to enter, and enters it. Capabilities come
/// with the first program that starts after the map is there.
const ENTER: &str = r#"
own=$(readlink /proc/self/ns/user)
{ until [ "$(readlink /proc/$$/ns/user)" != "$own" ]; do sleep 0.01; done
  echo 0 0 4294967295 > /proc/$$/uid_map && echo 0 0 4294967295 > /proc/$$/gid_map; } &
exec unshare --user --mount bash -c '
until [ "$(cat /proc/self/uid_map)" ] && [ "$(cat /proc/self/gid_map)" ]; do sleep 0.01; done
exec bash -c "$@"' bash "$@""#;
/// Tells the kernel that the interpreter `$0` runs what begins as ELF files for aarch64 do, then runs the other words.
/// The kernel opens the interpreter now (F), so that it is found in every root, and hands on the zeroth argument (P).
const REGISTER: &str = r#"
mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc || {
    echo "error: Linux 6.7 is needed, which lets a user namespace say how programs start" >&2; exit 125; }
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
printf %s ":qemu-aarch64:M::$magic:$mask:$0:PF" > /proc/sys/fs/binfmt_misc/register && exec "$@""#;

/// What runs the words that are added to it, and all that they start, where `qemu`, a program without shared libraries,
/// runs programs for aarch64. Its process becomes theirs.
pub fn aarch64(qemu: &Path) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", ENTER, "bash", REGISTER]).arg(qemu);
    command
}
