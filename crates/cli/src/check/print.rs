//! The three forms of a report.

use std::io::{self, Write};

use portcullis_core::yaml::Diagnostic;
use serde::Serialize;

use super::{Output, Report};

pub(super) fn print(report: &Report, output: Output, out: &mut dyn Write) -> io::Result<()> {
    match output {
        Output::Table => table(report, out),
        Output::Json => {
            let text = serde_json::to_string_pretty(&Printed::new(report))?;
            writeln!(out, "{text}")
        }
        Output::Yaml => yaml(&Printed::new(report), out),
    }
}

fn table(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    for diagnostic in &report.errors {
        writeln!(out, "error: {diagnostic}")?;
    }
    for diagnostic in &report.warnings {
        writeln!(out, "warning: {diagnostic}")?;
    }
    let count = |n: usize, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
    writeln!(
        out,
        "{}, {}; {}, {}, {}",
        count(report.errors.len(), "error"),
        count(report.warnings.len(), "warning"),
        count(report.clusters, "cluster"),
        count(report.gateways, "gateway configuration"),
        count(report.files.len(), "file"),
    )
}

#[derive(Serialize)]
struct Printed<'a> {
    errors: Vec<Item<'a>>,
    warnings: Vec<Item<'a>>,
    summary: Summary,
}

#[derive(Serialize)]
struct Item<'a> {
    file: &'a str,
    line: Option<usize>,
    column: Option<usize>,
    field: &'a str,
    message: &'a str,
    remedy: &'a str,
}

#[derive(Serialize)]
struct Summary {
    errors: usize,
    warnings: usize,
    clusters: usize,
    #[serde(rename = "gatewayConfigurations")]
    gateways: usize,
    files: usize,
}

impl<'a> Printed<'a> {
    fn new(report: &'a Report) -> Self {
        let items = |list: &'a [Diagnostic]| list.iter().map(Item::new).collect();
        Self {
            errors: items(&report.errors),
            warnings: items(&report.warnings),
            summary: Summary {
                errors: report.errors.len(),
                warnings: report.warnings.len(),
                clusters: report.clusters,
                gateways: report.gateways,
                files: report.files.len(),
            },
        }
    }
}

impl<'a> Item<'a> {
    fn new(diagnostic: &'a Diagnostic) -> Self {
        Self {
            file: &diagnostic.file,
            line: diagnostic.place.map(|place| place.line),
            column: diagnostic.place.map(|place| place.column),
            field: &diagnostic.fault.field,
            message: &diagnostic.fault.message,
            remedy: &diagnostic.fault.remedy,
        }
    }
}

/// JSON scalars are YAML scalars, so that lists and keys are all there is to lay out.
fn yaml(printed: &Printed<'_>, out: &mut dyn Write) -> io::Result<()> {
    for (name, items) in [("errors", &printed.errors), ("warnings", &printed.warnings)] {
        if items.is_empty() {
            writeln!(out, "{name}: []")?;
            continue;
        }
        writeln!(out, "{name}:")?;
        for item in items {
            fields(item, "- ", "  ", out)?;
        }
    }
    writeln!(out, "summary:")?;
    fields(&printed.summary, "  ", "  ", out)
}

fn fields(of: &impl Serialize, first: &str, further: &str, out: &mut dyn Write) -> io::Result<()> {
    let value = serde_json::to_value(of)?;
    for (index, (key, value)) in value.as_object().into_iter().flatten().enumerate() {
        let lead = if index == 0 { first } else { further };
        writeln!(out, "{lead}{key}: {value}")?;
    }
    Ok(())
}
