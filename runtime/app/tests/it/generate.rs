//! Manual pages and completions.

use std::fs;
use std::process::Command;

use orco_trials::skipped;

use crate::support::{Device, assert_refused, text};

#[test]
fn every_verb_has_a_manual_page_and_completions() {
    let device = Device::new();
    let folder = device.folder.path().join("generated");
    device.json(&["generate", folder.to_str().unwrap()]);
    let help = text(&device.command(&["--help"]).output().unwrap().stdout);
    let verbs = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let verbs: Vec<&str> = verbs.filter(|line| line.starts_with("  ") && !line.starts_with("   ")).collect();
    assert!(verbs.len() > 20, "{help}");
    let completions = ["bash/orco.bash", "zsh/_orco", "fish/orco.fish"];
    let completions = completions.map(|name| fs::read_to_string(folder.join(name)).unwrap());
    let overview = fs::read_to_string(folder.join("man1/orco.1")).unwrap();
    for verb in verbs.iter().filter_map(|line| line.split_whitespace().next()).filter(|verb| *verb != "help") {
        let page = fs::read_to_string(folder.join(format!("man1/orco-{verb}.1"))).unwrap();
        assert!(page.contains(".SH OPTIONS"), "{page}");
        assert!(overview.contains(&format!(r"orco\-{verb}(1)")), "{overview}");
        assert!(completions.iter().all(|script| script.contains(verb)), "{verb}");
    }
}

#[test]
fn the_shell_can_read_its_completions() {
    let device = Device::new();
    device.json(&["generate", device.folder.path().to_str().unwrap()]);
    for (shell, script) in [("bash", "bash/orco.bash"), ("zsh", "zsh/_orco"), ("fish", "fish/orco.fish")] {
        match Command::new(shell).arg("-n").arg(device.folder.path().join(script)).output() {
            Ok(read) => assert!(read.status.success(), "{}", text(&read.stderr)),
            Err(error) => skipped(&format!("completions in {shell} ({error})")),
        }
    }
}

#[test]
fn what_others_wrote_is_not_replaced() {
    let device = Device::new();
    let folder = device.folder.path().join("generated");
    let generate = || device.command(&["generate", folder.to_str().unwrap()]).output().unwrap();
    assert!(generate().status.success() && generate().status.success(), "its own files are replaced");
    let script = folder.join("bash/orco.bash");
    fs::write(&script, "alias o=orco\n").unwrap();
    let page = folder.join("man1/orco.1");
    fs::remove_file(&page).unwrap();
    assert_refused(&generate(), "what is there was not written by this command");
    assert_eq!(fs::read_to_string(&script).unwrap(), "alias o=orco\n");
    assert!(!page.exists(), "nothing is written before all may be");
    #[cfg(unix)]
    {
        fs::remove_file(&script).unwrap();
        let theirs = device.folder.path().join("theirs");
        fs::write(&theirs, "mine").unwrap();
        std::os::unix::fs::symlink(&theirs, &page).unwrap();
        assert_refused(&generate(), "what is there was not written by this command");
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "mine");
    }
}
