//! The gateway's own token: fixed, or from a file that somebody rotates.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use http::HeaderValue;
use portcullis_core::{Blame, Error};
use portcullis_index::GatewayCredential;
use tokio::sync::Notify;

/// How often a token file is read. The kubelet renews a projected token with a fifth of its life
/// left, that is minutes ahead at the least.
const REFRESH: Duration = Duration::from_secs(30);
/// Longest token file: ten times a token with very many claims.
const TOKEN_BYTES_MAX: u64 = 128 * 1024;

/// See the module.
pub(super) enum GatewayToken {
    /// The gateway has no token: it uses a certificate, or no identity at all.
    None,
    /// A token that does not change.
    Fixed(HeaderValue),
    /// A token file, read in the background.
    File(Arc<TokenFile>),
}

pub(super) struct TokenFile {
    path: PathBuf,
    current: ArcSwapOption<HeaderValue>,
    refresh: Notify,
}

impl GatewayToken {
    pub(super) fn new(credential: &GatewayCredential) -> Self {
        match credential {
            GatewayCredential::Token(token) => match bearer(token.reveal()) {
                Some(value) => Self::Fixed(value),
                None => Self::None,
            },
            GatewayCredential::TokenFile(path) => Self::File(TokenFile::follow(path)),
            GatewayCredential::None | GatewayCredential::ClientCertificate { .. } => Self::None,
        }
    }

    /// The header to send, if the gateway has a token.
    pub(super) fn current(&self, cluster: &str) -> Result<Option<HeaderValue>, Error> {
        match self {
            Self::None => Ok(None),
            Self::Fixed(value) => Ok(Some(value.clone())),
            Self::File(file) => match file.current.load_full() {
                Some(value) => Ok(Some(HeaderValue::clone(&value))),
                None => {
                    let message = format!("the gateway has no credential for cluster {cluster}");
                    let detail = format!("token file {} cannot be used", file.path.display());
                    Err(Error::unavailable(Blame::Config, message).with_detail(detail))
                }
            },
        }
    }

    /// The upstream refused the token: look at the file without waiting for the timer.
    pub(super) fn refresh_soon(&self) {
        if let Self::File(file) = self {
            file.refresh.notify_one();
        }
    }
}

impl TokenFile {
    fn follow(path: &Path) -> Arc<Self> {
        let file = Arc::new(Self {
            path: path.to_owned(),
            current: ArcSwapOption::empty(),
            refresh: Notify::new(),
        });
        file.read();
        let weak = Arc::downgrade(&file);
        tokio::spawn(async move {
            loop {
                let Some(file) = weak.upgrade() else { return };
                // A timeout is the timer's turn; a notification is a refused token.
                let _ = tokio::time::timeout(REFRESH, file.refresh.notified()).await;
                file.read();
            }
        });
        file
    }

    /// Keeps the last good token if the file is gone or broken for a moment.
    fn read(&self) {
        match read_token(&self.path) {
            Ok(value) => self.current.store(Some(Arc::new(value))),
            Err(error) => {
                tracing::error!(path = %self.path.display(), "the gateway's token file cannot be used: {error}");
            }
        }
    }
}

fn read_token(path: &Path) -> Result<HeaderValue, String> {
    let size = std::fs::metadata(path).map_err(|e| e.to_string())?.len();
    if size > TOKEN_BYTES_MAX {
        return Err(format!(
            "{size} bytes are more than the {TOKEN_BYTES_MAX} a token may have"
        ));
    }
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    bearer(text.trim())
        .ok_or_else(|| "it is empty or holds characters that no token has".to_owned())
}

fn bearer(token: &str) -> Option<HeaderValue> {
    if token.is_empty() || token.contains(char::is_whitespace) {
        return None;
    }
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_rotated_token_file_is_taken_up_and_a_broken_one_is_not() {
        let path = std::env::temp_dir().join(format!("portcullis-token-{}", uuid::Uuid::new_v4()));
        std::fs::write(&path, "one\n").unwrap();
        let file = TokenFile::follow(&path);
        let token = GatewayToken::File(Arc::clone(&file));
        assert_eq!(token.current("a/b").unwrap().unwrap(), "Bearer one");
        std::fs::write(&path, "two").unwrap();
        file.read();
        assert_eq!(token.current("a/b").unwrap().unwrap(), "Bearer two");
        std::fs::write(&path, "").unwrap();
        file.read();
        assert_eq!(
            token.current("a/b").unwrap().unwrap(),
            "Bearer two",
            "the last good one stays"
        );
        std::fs::remove_file(&path).unwrap();
        let missing = GatewayToken::File(TokenFile::follow(&path));
        assert!(
            missing.current("a/b").is_err(),
            "without a token nothing goes out"
        );
    }
}
