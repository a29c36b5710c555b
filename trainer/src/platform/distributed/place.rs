//! Which rank this process is, and where it meets the others: the environment variables of torchrun, else of Slurm.

use super::RankError;

/// A rank's place among the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankPlace {
    /// The own number, from 0.
    pub rank: usize,
    /// How many there are.
    pub size: usize,
    /// The own number on this machine.
    pub local: usize,
    /// Where the store is that they meet at.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Whether this process keeps the store; with torchrun, its agent does.
    pub serves: bool,
    /// Stands before every key in the store; of a restart by torchrun another one.
    pub prefix: String,
}

/// Highest number of ranks.
const MAX_RANKS: usize = 65_536;

impl RankPlace {
    /// What the environment says; nothing where one process trains alone.
    ///
    /// # Errors
    /// [`RankError::Variable`] if a variable is missing or makes no sense.
    pub fn from_environment() -> Result<Option<Self>, RankError> {
        Self::read(&|name| std::env::var(name).ok())
    }

    fn read(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>, RankError> {
        if variable("RANK").is_some() && variable("WORLD_SIZE").is_some() {
            return Self::torchrun(variable);
        }
        // srun sets both for each of its tasks, sbatch the first one only.
        if variable("SLURM_PROCID").is_some() && variable("SLURM_STEP_NUM_TASKS").is_some() {
            return Self::slurm(variable);
        }
        // Several processes that each believed to be alone would train the same.
        if variable("WORLD_SIZE").is_some() { Self::torchrun(variable) } else { Ok(None) }
    }

    fn torchrun(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>, RankError> {
        let size = number(variable, "WORLD_SIZE", 1, MAX_RANKS, "a number of ranks")?;
        if size == 1 {
            return Ok(None);
        }
        let rank = number(variable, "RANK", 0, size - 1, "a number below WORLD_SIZE")?;
        let local = match variable("LOCAL_RANK") {
            None => 0,
            Some(_) => number(variable, "LOCAL_RANK", 0, rank, "a number up to RANK")?,
        };
        let host = named(variable, "MASTER_ADDR", "the name or address of rank 0's machine")?;
        let port = port(variable)?;
        let by_agent = variable("TORCHELASTIC_USE_AGENT_STORE").is_some_and(|value| value == "True");
        let attempt = variable("TORCHELASTIC_RESTART_COUNT").unwrap_or_else(|| "0".into());
        Ok(Some(Self { rank, size, local, host, port, serves: rank == 0 && !by_agent, prefix: prefix(&attempt) }))
    }

    fn slurm(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>, RankError> {
        let size = number(variable, "SLURM_STEP_NUM_TASKS", 1, MAX_RANKS, "a number of ranks")?;
        if size == 1 {
            return Ok(None);
        }
        let rank = number(variable, "SLURM_PROCID", 0, size - 1, "a number below SLURM_STEP_NUM_TASKS")?;
        let local = number(variable, "SLURM_LOCALID", 0, rank, "a number up to SLURM_PROCID")?;
        let host = match variable("MASTER_ADDR") {
            Some(host) if !host.is_empty() => host,
            _ => first_node(&named(variable, "SLURM_STEP_NODELIST", "the machines of the job")?),
        };
        let port = match variable("MASTER_PORT") {
            Some(_) => port(variable)?,
            None => {
                let job = number(variable, "SLURM_JOB_ID", 0, usize::MAX, "a number, or MASTER_PORT a free port")?;
                20_000 + (job % 10_000) as u16
            }
        };
        Ok(Some(Self { rank, size, local, host, port, serves: rank == 0, prefix: prefix("0") }))
    }
}

fn prefix(attempt: &str) -> String {
    format!("orco/{attempt}")
}

fn port(variable: &dyn Fn(&str) -> Option<String>) -> Result<u16, RankError> {
    let port = number(variable, "MASTER_PORT", 1, usize::from(u16::MAX), "a port from 1 to 65535")?;
    Ok(port as u16)
}

fn named(
    variable: &dyn Fn(&str) -> Option<String>,
    name: &'static str,
    expected: &'static str,
) -> Result<String, RankError> {
    let value = variable(name).unwrap_or_default();
    if value.is_empty() { Err(RankError::Variable { name, value, expected }) } else { Ok(value) }
}

fn number(
    variable: &dyn Fn(&str) -> Option<String>,
    name: &'static str,
    least: usize,
    most: usize,
    expected: &'static str,
) -> Result<usize, RankError> {
    let value = variable(name).unwrap_or_default();
    let number = value.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or(RankError::Variable { name, value, expected })
}

/// The first machine of a list as Slurm writes it: `node[03-06,9],other` begins with node03.
fn first_node(list: &str) -> String {
    let first = list.split(',').next().unwrap_or_default();
    match first.split_once('[') {
        None => first.to_owned(),
        Some((stem, numbers)) => {
            format!("{stem}{}", numbers.split(['-', ']']).next().unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<RankPlace>, String> {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        RankPlace::read(&variable).map_err(|error| error.to_string())
    }

    const TORCHRUN: [(&str, &str); 5] = [
        ("RANK", "5"),
        ("WORLD_SIZE", "8"),
        ("LOCAL_RANK", "1"),
        ("MASTER_ADDR", "10.0.0.7"),
        ("MASTER_PORT", "29500"),
    ];

    #[test]
    fn torchrun_says_who_and_where() {
        let place = read(&TORCHRUN).unwrap().unwrap();
        assert_eq!((place.rank, place.size, place.local, place.serves), (5, 8, 1, false));
        assert_eq!((place.host.as_str(), place.port), ("10.0.0.7", 29500));
        let first = [&[("RANK", "0"), ("LOCAL_RANK", "0")], &TORCHRUN[..]].concat();
        assert!(read(&first).unwrap().unwrap().serves, "rank 0 keeps the store");
        let agent = [("TORCHELASTIC_USE_AGENT_STORE", "True"), ("TORCHELASTIC_RESTART_COUNT", "2")];
        let place = read(&[&agent, &first[..]].concat()).unwrap().unwrap();
        assert_eq!((place.serves, place.prefix.as_str()), (false, "orco/2"));
    }

    #[test]
    fn slurm_is_understood_where_srun_started_several_tasks() {
        let task = [
            ("SLURM_PROCID", "3"),
            ("SLURM_STEP_NUM_TASKS", "4"),
            ("SLURM_LOCALID", "1"),
            ("SLURM_STEP_NODELIST", "gpu[07-08]"),
            ("SLURM_JOB_ID", "123456"),
        ];
        let place = read(&task).unwrap().unwrap();
        assert_eq!((place.rank, place.size, place.local, place.serves), (3, 4, 1, false));
        assert_eq!((place.host.as_str(), place.port), ("gpu07", 23_456));
        // The script that sbatch runs is no rank, however many tasks the job may start.
        assert_eq!(read(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")]), Ok(None));
        assert_eq!(first_node("a1,b[2-3]"), "a1");
        assert_eq!(first_node("node[9]"), "node9");
    }

    #[test]
    fn nothing_is_meant_by_nothing_and_nonsense_is_named() {
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[("RANK", "0"), ("WORLD_SIZE", "1")]), Ok(None));
        assert!(read(&[("RANK", "0"), ("WORLD_SIZE", "2")]).unwrap_err().starts_with("MASTER_ADDR is \"\", but must"));
        assert_eq!(read(&[("WORLD_SIZE", "1")]), Ok(None));
        assert!(
            read(&[("WORLD_SIZE", "2")])
                .unwrap_err()
                .starts_with("RANK is \"\", but must be a number below WORLD_SIZE")
        );
        let wrong = [&[("RANK", "8")], &TORCHRUN[..]].concat();
        assert!(read(&wrong).unwrap_err().starts_with("RANK is \"8\", but must be a number below WORLD_SIZE"));
        let wrong = [&[("MASTER_PORT", "none")], &TORCHRUN[..]].concat();
        assert!(read(&wrong).unwrap_err().starts_with("MASTER_PORT is \"none\""));
    }
}
