//! `docs/agent-openapi.json` against the routes and the bodies.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::schema::Progress;

const DOCUMENT: &str = include_str!("../../../../../docs/agent-openapi.json");

const METHODS: [&str; 6] = ["get", "put", "post", "patch", "delete", "head"];

fn document() -> Value {
    serde_json::from_str(DOCUMENT).unwrap()
}

/// What the document says of each path: its methods.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let document = document();
    let paths = document["paths"].as_object().unwrap();
    let methods = |path: &Value| {
        let keys = path.as_object().unwrap().keys();
        keys.filter(|key| METHODS.contains(&key.as_str()))
            .cloned()
            .collect()
    };
    paths
        .iter()
        .map(|(path, of)| (path.clone(), methods(of)))
        .collect()
}

/// A path with names in its places.
fn filled(path: &str) -> String {
    path.replace("{hosting}", "hv")
        .replace("{block}", "b1")
        .replace("{id}", &Uuid::new_v4().to_string())
        .replace("{iqn}", &format!("iqn.2016-12.org.gluster-block:{GBID}"))
}

#[tokio::test]
async fn the_document_has_the_routes_and_no_others() {
    let documented = documented();
    let routes = [
        HEALTH,
        BLOCKS,
        BLOCK,
        BLOCK_SESSIONS,
        TARGET_SESSIONS,
        OPERATION,
    ];
    let paths: BTreeSet<_> = documented.keys().map(String::as_str).collect();
    assert_eq!(paths, BTreeSet::from(routes));
    let service = Service::new(&[]);
    service.make().await;
    for (path, methods) in &documented {
        // axum answers HEAD wherever it answers GET.
        for method in METHODS.into_iter().filter(|method| *method != "head") {
            let verb = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let got = service
                .ask(&Role::Controller, verb, &filled(path), "")
                .await;
            let is_served = got.body["type"] != "urn:gluster-block:problem:no-such-path";
            assert_eq!(
                is_served,
                methods.contains(method),
                "{method} {path}: {got:?}"
            );
        }
    }
}

/// Compares a value with a schema: type, members, choices; `$ref` is followed.
fn mistakes(at: &str, value: &Value, schema: &Value, document: &Value) -> Vec<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let pointer = name.strip_prefix('#').unwrap();
        let target = document
            .pointer(pointer)
            .unwrap_or_else(|| panic!("{name} leads nowhere"));
        return mistakes(at, value, target, document);
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let fits = |choice: &&Value| mistakes(at, value, choice, document).is_empty();
        let count = choices.iter().filter(fits).count();
        let all = choices
            .iter()
            .map(|choice| mistakes(at, value, choice, document));
        return if count == 1 {
            Vec::new()
        } else {
            vec![format!(
                "{at} fits {count} choices: {:?}",
                all.collect::<Vec<_>>()
            )]
        };
    }
    let has_type = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_u64(),
        Some("boolean") => value.is_boolean(),
        other => panic!("{at}: the schema has type {other:?}"),
    };
    let mut wrong = Vec::new();
    if !has_type {
        return vec![format!("{at} is {value}, not {}", schema["type"])];
    }
    if let Some(only) = schema.get("const").filter(|only| *only != value) {
        wrong.push(format!("{at} is {value}, not {only}"));
    }
    if schema["enum"]
        .as_array()
        .is_some_and(|choices| !choices.contains(value))
    {
        wrong.push(format!("{at} is {value}, none of {}", schema["enum"]));
    }
    for item in value.as_array().into_iter().flatten() {
        wrong.extend(mistakes(at, item, &schema["items"], document));
    }
    let empty = serde_json::Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&empty);
    for (name, member) in value.as_object().unwrap_or(&empty) {
        let at = format!("{at}.{name}");
        match properties
            .get(name)
            .or_else(|| schema.get("additionalProperties"))
        {
            Some(schema) => wrong.extend(mistakes(&at, member, schema, document)),
            None => wrong.push(format!("{at} is not in the document")),
        }
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        if value.get(name.as_str().unwrap()).is_none() {
            wrong.push(format!("{at} lacks {name}"));
        }
    }
    wrong
}

/// Checks a body against a schema of the document.
fn check(name: &str, body: &Value) {
    let document = document();
    let schema = &document["components"]["schemas"][name];
    assert!(schema.is_object(), "no schema {name}");
    let wrong = mistakes(name, body, schema, &document);
    assert_eq!(wrong, Vec::<String>::new(), "{body:#}");
}

#[tokio::test]
async fn every_answer_is_as_documented() {
    let service = Service::new(&[]);
    service.log_in(&[NODE]);
    let accepted = service
        .ask(&Role::Controller, Method::PUT, PATH, &wanted())
        .await;
    check("Operation", &accepted.body);
    let over = service.get(&format!("{}?wait=5", accepted.location)).await;
    check("Operation", &over.body);
    check("Block", &service.get(PATH).await.body);
    check(
        "BlockList",
        &service.get("/v1/volumes/hv/blocks").await.body,
    );
    check(
        "SessionList",
        &service.get("/v1/volumes/hv/blocks/b1/sessions").await.body,
    );
    check("Health", &service.get(HEALTH).await.body);
    check(
        "Problem",
        &service.get("/v1/volumes/nix/blocks/b1").await.body,
    );
    check("Operation", &service.change(Method::DELETE, "").await);
}

#[test]
fn every_problem_is_as_documented() {
    let document = document();
    let documented: BTreeSet<_> =
        document["components"]["schemas"]["Problem"]["properties"]["type"]["enum"]
            .as_array()
            .unwrap()
            .iter()
            .map(|kind| kind.as_str().unwrap().to_owned())
            .collect();
    let mut seen = BTreeSet::new();
    for problem in crate::schema::every_problem() {
        let failed = Operation {
            id: Uuid::new_v4(),
            verb: crate::schema::Verb::Create,
            block: "hv/b1".parse().unwrap(),
            progress: Progress::Failed {
                problem: Box::new(problem.clone()),
            },
        };
        check("Operation", &serde_json::to_value(failed).unwrap());
        let body = serde_json::to_value(problem).unwrap();
        check("Problem", &body);
        seen.insert(body["type"].as_str().unwrap().to_owned());
    }
    assert_eq!(seen, documented, "kinds of problems");
}

#[test]
fn requests_are_as_documented_member_by_member() {
    let all = NewBlock {
        size_bytes: 512,
        hosts: vec!["10.0.0.1".parse().unwrap()],
        auth: true,
        prealloc: crate::schema::Preallocation::Full,
        block_size: Some(512),
        io_timeout_seconds: Some(44),
        ring_buffer_megabytes: Some(8),
    };
    let all = serde_json::to_value(all).unwrap();
    check("NewBlock", &all);
    let document = document();
    let schema = |name: &str| document["components"]["schemas"][name].clone();
    let members: BTreeSet<_> = all.as_object().unwrap().keys().cloned().collect();
    let documented: BTreeSet<_> = schema("NewBlock")["properties"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    assert_eq!(members, documented);
    for required in schema("NewBlock")["required"].as_array().unwrap() {
        let mut lacking = all.clone();
        lacking
            .as_object_mut()
            .unwrap()
            .remove(required.as_str().unwrap());
        assert!(
            serde_json::from_value::<NewBlock>(lacking).is_err(),
            "{required} is optional"
        );
    }
    check(
        "NewSize",
        &serde_json::to_value(NewSize { size_bytes: 1 }).unwrap(),
    );
}
