//! Attacks: one test each, named after what the attacker does.
//!
//! What must hold for all: nobody acts as somebody else, a refused request is never forwarded,
//! every request has exactly one answer, and nobody's behaviour stops the others.

mod credentials;
mod floods;
mod identity_headers;
mod impersonation;
mod leaks;
mod limits;
mod memory;
mod paths;
mod redirects;
mod refusals;
mod routing;
mod sharing;
pub(crate) mod site;
mod slow_clients;
mod smuggling;
mod smuggling_h2;
mod uploads;
mod upgrades;
