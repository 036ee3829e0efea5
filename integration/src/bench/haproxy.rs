//! HAProxy in front of the control plane: the practical limit to compare with.
//!
//! Purpose: the configuration that serves HAProxy best here, with TLS and HTTP/2 on both sides.
//! Invariant: it does no more than carry requests: no authentication, no log, no statistics.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tokio::net::TcpStream;

use crate::control_plane::ControlPlane;
use crate::process::{Ending, Process};
use crate::scratch::Scratch;
use crate::wait::{Look, eventually};
use crate::{Context, Failure, Result};

/// What to do when there is no HAProxy.
pub const HOW_TO_INSTALL: &str =
    "haproxy: not installed, so its rows are empty; on Debian: `apt-get install haproxy`";

const READY: Duration = Duration::from_secs(10);
const STOPPED: Duration = Duration::from_secs(10);
/// The port is chosen before HAProxy takes it, so another program may be faster.
const ATTEMPTS: usize = 5;

/// A running HAProxy.
#[derive(Debug)]
pub struct Haproxy {
    address: SocketAddr,
    process: Process,
    _dir: Scratch,
}

impl Haproxy {
    /// Starts it and waits until it accepts connections; `None` when it is not installed.
    ///
    /// # Errors
    /// When it does not become ready, with the end of its log.
    pub async fn start(plane: &ControlPlane) -> Result<Option<Self>> {
        let Some(binary) = installed() else {
            return Ok(None);
        };
        let mut last = Failure::new("haproxy was not tried");
        for _ in 0..ATTEMPTS {
            match Self::attempt(plane, &binary).await {
                Ok(started) => return Ok(Some(started)),
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }

    async fn attempt(plane: &ControlPlane, binary: &PathBuf) -> Result<Self> {
        let dir = Scratch::new("haproxy")?;
        let (cert, key) = plane.serving_pair();
        let read = |file| std::fs::read_to_string(file).context("reading the serving certificate");
        let pair = dir.write("pair.pem", format!("{}\n{}", read(cert)?, read(key)?))?;
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("choosing a port for haproxy")?;
        let address = listener
            .local_addr()
            .context("choosing a port for haproxy")?;
        let upstream = plane.url().trim_start_matches("https://");
        let text = configuration(
            &address.to_string(),
            &pair.display().to_string(),
            upstream,
            &plane.ca_file().display().to_string(),
        );
        let config = dir.write("haproxy.cfg", text)?;
        drop(listener);
        let mut command = Command::new(binary);
        command.arg("-db").arg("-f").arg(config);
        let log = dir.path().join("haproxy.log");
        let (process, _) = Process::start("haproxy", command, log, Ending::Terminate, false)?;
        let look = || async {
            match (process.exited(), TcpStream::connect(address).await) {
                (Some(status), _) => Look::Ready(Err(status)),
                (None, Ok(_)) => Look::Ready(Ok(())),
                (None, Err(error)) => Look::Not(error.to_string()),
            }
        };
        match eventually("haproxy's port", READY, look).await? {
            Ok(()) => Ok(Self {
                address,
                process,
                _dir: dir,
            }),
            Err(status) => Err(Failure::new(format!(
                "haproxy ended with {status}: {}",
                process.log_tail()
            ))),
        }
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Ends it.
    ///
    /// # Errors
    /// When it does not end in time.
    pub async fn stop(mut self) -> Result<()> {
        self.process.stop(STOPPED).await.map(drop)
    }
}

fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    // Debian puts it where only root's PATH leads.
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders
        .map(|folder| folder.join("haproxy"))
        .find(|file| file.is_file())
}

/// The default stream window of 64 KiB would make HAProxy wait for updates on large lists, and
/// without `http-reuse always` a fresh client would wait for a fresh connection upstream. Upgrades
/// need HTTP/1.1 upstream, as kube-apiserver has no extended CONNECT.
fn configuration(listen: &str, pair: &str, upstream: &str, ca: &str) -> String {
    format!(
        "\
global
  nbthread 2
  maxconn 8000
  tune.h2.initial-window-size 1048576
  tune.h2.max-concurrent-streams 250
  ssl-default-bind-options ssl-min-ver TLSv1.2
defaults
  mode http
  http-reuse always
  option http-no-delay
  timeout connect 5s
  timeout client 1h
  timeout server 1h
  timeout tunnel 1h
frontend gateway
  bind {listen} ssl crt {pair} alpn h2,http/1.1
  default_backend kube
backend kube
  server kube {upstream} ssl verify required ca-file {ca} alpn h2,http/1.1 ws h1
"
    )
}
