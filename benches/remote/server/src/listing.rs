//! Lists of objects, as S3's `ListObjectsV2` gives them.

use std::fmt::Write;

use crate::objects::Objects;
use crate::service::{BUCKET, LAST_MODIFIED_ISO, etag};

const MOST: usize = 1000;

/// Give the page of a list that the parameters of a query ask for.
pub fn page(objects: &Objects, parameters: &[(String, String)]) -> String {
    let get = |name: &str| parameters.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value.as_str());
    let (prefix, delimiter) = (get("prefix"), get("delimiter"));
    // The token of a page is the last key, or common prefix, of the page before.
    let after = [get("continuation-token"), get("start-after")].into_iter().find(|key| !key.is_empty());
    let after = after.unwrap_or("");
    let most = get("max-keys").parse().unwrap_or(MOST).min(MOST);
    let (mut entries, mut count, mut last, mut more) = (String::new(), 0, String::new(), false);
    for (key, content) in objects.list(prefix, after) {
        let end = if delimiter.is_empty() { None } else { key[prefix.len()..].find(delimiter) };
        let common = end.map(|end| &key[..prefix.len() + end + delimiter.len()]);
        if common.is_some_and(|common| common == last || common == after) {
            continue;
        }
        if count == most {
            more = true;
            break;
        }
        count += 1;
        common.unwrap_or(key).clone_into(&mut last);
        let text = escape(&last);
        let _ = match common {
            Some(_) => write!(entries, "<CommonPrefixes><Prefix>{text}</Prefix></CommonPrefixes>"),
            None => write!(
                entries,
                "<Contents><Key>{text}</Key><LastModified>{LAST_MODIFIED_ISO}</LastModified><ETag>{}</ETag>\
                 <Size>{}</Size><StorageClass>STANDARD</StorageClass></Contents>",
                escape(&etag(key, content)),
                content.len()
            ),
        };
    }
    let token =
        if more { format!("<NextContinuationToken>{}</NextContinuationToken>", escape(&last)) } else { String::new() };
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>{BUCKET}</Name>\
         <Prefix>{}</Prefix><KeyCount>{count}</KeyCount><MaxKeys>{most}</MaxKeys><IsTruncated>{more}</IsTruncated>\
         {token}{entries}</ListBucketResult>",
        escape(prefix)
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
