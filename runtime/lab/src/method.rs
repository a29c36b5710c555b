//! What a method is called, wherever it is measured: on a bundle's features here, or with a training of its own by the
//! trainer's laboratory.

/// A method's name, and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    /// Name in tables, files and JSON.
    pub name: &'static str,
    /// What it does, and whose it is, for those who read its numbers.
    pub description: &'static str,
    /// The row of the paper's tables that it stands for ([`crate::published::ROWS`]).
    pub paper_row: Option<&'static str>,
}

/// NC-FSCIL, here its head on given features, by the trainer with a backbone of its own.
pub const NC_FSCIL: Method = Method {
    name: "nc-fscil",
    description: "Every class has a vertex of one simplex for its classifier, and a projection is pulled there by the \
                 dot-regression loss (Yang et al., ICLR 2023).",
    paper_row: Some("NC-FSCIL"),
};
