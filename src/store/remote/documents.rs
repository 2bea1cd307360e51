//! Metadata documents: all that a node may have are asked for at once, and which it has is told by what comes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use zarrs::storage::{Bytes, StoreKey};

use super::{Remote, Want, is_forbidden};
use crate::error::Result;

/// So long at least those documents are waited for that are not needed.
const LEAST_GRACE: Duration = Duration::from_millis(20);

/// What a store says of a document.
type Value = Result<Option<Bytes>>;

/// The documents that one node may have.
#[derive(Default)]
struct Node {
    /// Their positions among all.
    documents: Vec<usize>,
    /// That of its `zarr.json`.
    main: Option<usize>,
}

/// The values of the metadata documents at `keys`, each `None` if the store does not hold it. All are asked for at once.
/// Those beside a `zarr.json` are hardly waited for, and may be `None` though they are there.
///
/// Servers that do not let just anybody list what they hold say of what they do not hold that it is forbidden. So where
/// `zarr.json` is, and there is a document of the older format, this is taken for a node of that, and what else is forbidden
/// for not there.
pub(crate) async fn documents(remote: Arc<Remote>, keys: Vec<StoreKey>) -> Vec<Value> {
    let mut nodes: HashMap<&str, Node> = HashMap::new();
    for (at, key) in keys.iter().enumerate() {
        let (folder, name) = split(key);
        let node = nodes.entry(folder).or_default();
        node.documents.push(at);
        if name == "zarr.json" {
            node.main = Some(at);
        }
    }
    let mut found = receive(&remote, &keys, &nodes).await;
    for node in nodes.values() {
        let is_absent = node.main.is_some_and(|main| is_refused(&found[main]));
        let is_older = |&&at: &&usize| matches!(found[at], Ok(Some(_))) && split(&keys[at]).1 != ".zattrs";
        if is_absent && node.documents.iter().any(|at| is_older(&at)) {
            for &at in &node.documents {
                if is_refused(&found[at]) {
                    found[at] = Ok(None);
                }
            }
        }
    }
    found
}

/// Asks for all, and waits for those that are needed. Of the others, errors do not matter.
async fn receive(remote: &Remote, keys: &[StoreKey], nodes: &HashMap<&str, Node>) -> Vec<Value> {
    let ask = |(at, key)| async move { (at, remote.get(key, &Want::All).await) };
    let mut asked: FuturesUnordered<_> = keys.iter().enumerate().map(ask).collect();
    let began = Instant::now();
    let mut found: Vec<Option<Value>> = keys.iter().map(|_| None).collect();
    let mut is_needed = vec![true; keys.len()];
    let mut missing = keys.len();
    let mut end = None;
    loop {
        if missing == 0 && end.is_none() {
            // Who is given up closes a connection, so all have as long again as what is needed took.
            end = Some(Instant::now() + began.elapsed().max(LEAST_GRACE));
        }
        let next = match end {
            None => asked.next().await,
            Some(end) => tokio::time::timeout_at(end.into(), asked.next()).await.unwrap_or_default(),
        };
        let Some((at, value)) = next else { break };
        missing -= usize::from(is_needed[at]);
        if let Some(node) = nodes.get(split(&keys[at]).0)
            && node.main == Some(at)
            && matches!(value, Ok(Some(_)))
        {
            for &other in &node.documents {
                missing -= usize::from(other != at && is_needed[other] && found[other].is_none());
                is_needed[other] = other == at;
            }
        }
        found[at] = Some(value);
    }
    let values = found.into_iter().zip(is_needed);
    values.map(|(value, is_needed)| value.filter(|value| is_needed || value.is_ok()).unwrap_or(Ok(None))).collect()
}

fn is_refused(value: &Value) -> bool {
    value.as_ref().is_err_and(is_forbidden)
}

/// The folder of a document, and its name there.
fn split(key: &StoreKey) -> (&str, &str) {
    key.as_str().rsplit_once('/').unwrap_or(("", key.as_str()))
}
