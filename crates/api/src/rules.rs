//! Collects the faults of an object.

use portcullis_core::yaml::Fault;

/// Faults found so far. Methods take the field they are about.
#[derive(Default)]
pub(crate) struct Rules {
    faults: Vec<Fault>,
}

impl Rules {
    pub(crate) fn fault(&mut self, field: impl Into<String>, message: &str, remedy: &str) {
        self.faults.push(Fault::new(field, message, remedy));
    }

    /// Demands `holds`.
    pub(crate) fn check(&mut self, holds: bool, field: &str, message: &str, remedy: &str) {
        if !holds {
            self.fault(field, message, remedy);
        }
    }

    pub(crate) fn within<T: PartialOrd + ToString>(
        &mut self,
        field: &str,
        value: &T,
        least: &T,
        most: &T,
    ) {
        if value < least || value > most {
            let (least, most) = (least.to_string(), most.to_string());
            let remedy = format!("write a value from {least} to {most}");
            self.fault(field, "is out of range", &remedy);
        }
    }

    pub(crate) fn finish(self) -> Vec<Fault> {
        self.faults
    }
}
