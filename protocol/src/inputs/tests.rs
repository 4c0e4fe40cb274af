//! Inputs as they are written, their checks, and sums that are exact.

use proptest::prelude::*;

use super::*;
use crate::layers::ModelSpec;
use crate::plan::Loss;

fn network(input: usize, outputs: usize) -> ModelSpec {
    let text = format!(r#"{{"input":[{input}],"layers":[{{"kind":"linear","out_features":{outputs}}}]}}"#);
    serde_json::from_str(&text).unwrap()
}

fn inputs(text: &str) -> Inputs {
    toml::from_str(text).unwrap()
}

const WARDS: &str = r#"
    standardize = "federated"
    columns = [
      { name = "age", unit = "years", range = [0.0, 120.0] },
      { name = "ward", kind = "category", categories = ["east", "west", "north"], missing = "replace" },
      { name = "admitted", kind = "date" },
    ]
    target = { name = "stays", classes = ["no", "yes"] }
"#;

#[test]
fn what_is_written_can_be_read_back() {
    let wards = inputs(WARDS);
    assert_eq!((wards.width(), wards.raw_width()), (5, Some(3)));
    assert!(wards.lacks_statistics());
    assert_eq!(inputs(&toml::to_string(&wards).unwrap()), wards);
    assert_eq!(wards.check(&network(5, 2), Loss::CrossEntropy), Ok(()));
    assert_eq!((wards.class_name(1), wards.class_name(2)), (Some("yes"), None));
}

#[test]
fn the_schema_is_what_sites_have_in_common() {
    let wards = inputs(WARDS);
    let mut described = wards.clone();
    described.columns[0].mean = Some(40.0);
    described.columns[0].deviation = Some(9.0);
    described.columns[0].range = None;
    assert_eq!(described.schema_hash(), wards.schema_hash());
    for other in [
        WARDS.replace("\"age\"", "\"years\""),
        WARDS.replace("\"east\", \"west\"", "\"west\", \"east\""),
        WARDS.replace("[\"no\", \"yes\"]", "[\"yes\", \"no\"]"),
        WARDS.replace("unit = \"years\"", "unit = \"months\""),
    ] {
        assert_ne!(inputs(&other).schema_hash(), wards.schema_hash(), "{other}");
    }
}

#[test]
fn each_fault_is_named() {
    let refused = |text: String, loss| inputs(&text).check(&network(5, 2), loss).unwrap_err().to_string();
    let wards = |from: &str, to: &str| refused(WARDS.replace(from, to), Loss::CrossEntropy);
    for (said, expected) in [
        (wards("\"age\"", "\"ward\""), "the column \"ward\" is there twice"),
        (wards("\"age\"", "\"\""), "\"\" is no name"),
        (wards("\"age\"", "\" age\""), "\" age\" is no name"),
        (wards("\"west\", ", "\"east\", "), "the category \"east\" is there twice"),
        (wards("\"north\"", "\"a\", \"b\""), "the columns make 6 inputs, and the network reads [5]"),
        (wards("[0.0, 120.0]", "[9.0, 1.0]"), "age: a range is a smaller and a larger number"),
        (wards("range = [0.0, 120.0]", "deviation = 0.0"), "age: a mean is a number, a deviation a number above 0"),
        (wards("range = [0.0, 120.0]", "replacement = 1.0"), "age: a replacement needs missing = \"replace\""),
        (
            wards("missing = \"replace\"", "missing = \"replace\", replacement = 3.0"),
            "ward: the replacement of a category",
        ),
        (wards("categories = [\"east\", \"west\", \"north\"],", ""), "ward: a category needs `categories`"),
        (wards("[\"no\", \"yes\"]", "[\"a\", \"b\", \"c\"]"), "3 classes, where the network has 2 outputs"),
        (wards("standardize = \"federated\"", ""), "ward: missing = \"replace\" needs a replacement"),
        (
            wards(
                "standardize",
                "tokens = { vocabulary_sha256 = \"0000000000000000000000000000000000000000000000000000000000000000\" }\nstandardize",
            ),
            "give one of columns, image and tokens",
        ),
        (refused(WARDS.into(), Loss::Mse), "loss = \"mse\" learns a number"),
        (refused("standardize = \"federated\"".into(), Loss::Mse), "needs columns"),
    ] {
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn moments_are_those_of_all_values() {
    let mut moments = Moments::default();
    for number in [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0] {
        moments.include(number).unwrap();
    }
    assert_eq!((moments.mean(), moments.deviation()), (Some(5.0), Some(2.0)));
    assert_eq!((Moments::default().mean(), Moments::default().deviation()), (None, None));
    assert!(moments.include(f64::NAN).is_err() && moments.include(-1.5e14).is_err());
    assert_eq!(moments.count, 8, "a number that is refused is not counted");
}

#[test]
fn a_deviation_does_not_cancel() {
    let mut seconds = Moments::default();
    for second in 0..1000 {
        seconds.include(1.7e9 + f64::from(second) * 1e-3).unwrap();
    }
    let expected = ((1000.0f64 * 1000.0 - 1.0) / 12.0).sqrt() * 1e-3;
    // The numbers themselves have steps of 2.4e-7.
    assert!((seconds.deviation().unwrap() - expected).abs() < 1e-8, "{:?}", seconds.deviation());
}

fn description(inputs: &Inputs, rows: &[(f64, usize)]) -> Description {
    let mut sums = Description::empty(inputs);
    sums.examples = rows.len() as u64;
    for (number, category) in rows {
        for column in &mut sums.columns {
            match column {
                Described::Numbers(moments) => moments.include(*number).unwrap(),
                Described::Categories(counts) => counts[*category] += 1,
            }
        }
    }
    sums
}

#[test]
fn descriptions_that_no_table_has_are_refused() {
    let wards = inputs(WARDS);
    let good = description(&wards, &[(1.0, 0), (2.0, 1)]);
    assert_eq!(good.check(&wards), Ok(()));
    let text = serde_json::to_string(&good).unwrap();
    for (from, to, said) in [
        ("\"examples\":2", "\"examples\":0", "needs 1 to"),
        ("\"examples\":2", "\"examples\":1", "age: counts and sums that no values have"),
        ("[1,1,0]", "[1,1,1]", "ward: counts and sums"),
        ("[1,1,0]", "[1,1]", "ward: sums of another kind"),
        ("[1,1,0]", "[18446744073709551615,1,0]", "ward: counts and sums"),
        ("\"squares\":\"", "\"squares\":\"-", "age: counts and sums"),
        ("\"sum\":\"", "\"sum\":\"99999999999999999", "age: counts and sums"),
    ] {
        let changed: Description = serde_json::from_str(&text.replacen(from, to, 1)).unwrap();
        let refused = changed.check(&wards).unwrap_err().to_string();
        assert!(refused.contains(said), "{refused}");
    }
    let short = Description { columns: good.columns[..2].to_vec(), ..good.clone() };
    assert_eq!(short.check(&wards), Err(DescriptionError::Columns { expected: 3, got: 2 }));
    assert!(good.clone().add(&short).is_err());
    assert!(serde_json::from_str::<Moments>(r#"{"count":1,"sum":"1e5","squares":"0"}"#).is_err());
}

#[test]
fn small_counts_are_withheld() {
    let mut sums = description(&inputs(WARDS), &[(1.0, 0), (2.0, 1), (3.0, 1)]);
    sums.withhold_below(2);
    assert_eq!(sums.columns[1], Described::Categories(vec![0, 2, 0]));
    sums.withhold_below(4);
    assert_eq!(sums.columns[0], Described::Numbers(Moments::default()));
}

proptest! {
    /// Any split into sites, in any order, has the sums of the pooled table.
    #[test]
    fn sums_do_not_depend_on_sites_or_order(
        rows in proptest::collection::vec((-1e9..1e9f64, 0..3usize), 1..60),
        cuts in proptest::collection::vec(0..60usize, 0..5),
    ) {
        let wards = inputs(WARDS);
        let pooled = description(&wards, &rows);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % rows.len()).chain([0, rows.len()]).collect();
        cuts.sort_unstable();
        let mut sum = Description::empty(&wards);
        for pair in cuts.windows(2).rev() {
            sum.add(&description(&wards, &rows[pair[0]..pair[1]])).unwrap();
        }
        prop_assert_eq!(&sum, &pooled);
        let again: Description = serde_json::from_str(&serde_json::to_string(&sum).unwrap()).unwrap();
        prop_assert_eq!(again, pooled);
    }
}
