use tributary_client::examples::{Batch, Examples, Targets};

use super::lines::LINE_BYTES_MAX;
use super::*;

fn read_text(text: &str, options: &TableOptions) -> Result<Table, TableError> {
    read(text.as_bytes(), options)
}

fn all(table: &Table) -> Batch {
    table.examples.batch(&(0..table.examples.len()).collect::<Vec<_>>()).unwrap()
}

fn error(text: &str, options: &TableOptions) -> String {
    read_text(text, options).expect_err("must be refused").to_string()
}

#[test]
fn text_labels_become_classes_in_alphabetical_order_or_in_the_given_one() {
    let text = "x;animal\n1;dog\n2;cat\n3;dog\n";
    let table = read_text(text, &TableOptions::default()).unwrap();
    assert_eq!(all(&table).targets, Targets::Classes(vec![1, 0, 1]));
    assert_eq!((table.examples.input_shape(), table.classes), (&[1][..], 2));
    assert_eq!(table.labels.unwrap().to_string(), "cat = 0, dog = 1");
    assert_eq!(table.notes, ["the fields are separated by \";\" (--delimiter)"]);

    let map = |labels: &[&str]| Some(LabelMap::new(labels.iter().map(|label| (*label).to_owned()).collect()));
    let given = TableOptions { labels: map(&["dog", "fox", "cat"]), ..TableOptions::default() };
    let table = read_text(text, &given).unwrap();
    assert_eq!((all(&table).targets, table.classes), (Targets::Classes(vec![0, 2, 0]), 3));
    let unknown = TableOptions { labels: map(&["dog"]), ..TableOptions::default() };
    assert_eq!(error(text, &unknown), "line 3: column animal: \"cat\" is not among the labels dog = 0");
}

#[test]
fn no_text_of_a_table_acts_on_a_terminal_or_ends_a_comment() {
    let table = read_text("x,\"a\nb\"\n1,\"it's\"\n2,\"\u{1b}[2J\nname\"\n", &TableOptions::default()).unwrap();
    let labels = table.labels.unwrap();
    for text in [labels.to_string(), labels.option()] {
        assert!(tributary_protocol::text::is_text(&text), "{text:?}");
    }
    assert!(labels.option().starts_with('\'') && labels.option().contains("it'\\''s"), "{}", labels.option());
}

#[test]
fn class_numbers_stay_as_they_are_and_other_numbers_need_regression() {
    let table = read_text("x,y\n1,3\n2,0.0\n", &TableOptions::default()).unwrap();
    assert_eq!((all(&table).targets, table.classes), (Targets::Classes(vec![3, 0]), 4));
    assert!(table.labels.is_none());
    let prices = "size,price\n1,10.5\n2,11\n";
    let refused = read_text(prices, &TableOptions::default()).expect_err("no classes");
    assert_eq!(refused.to_string(), "the target price has numbers that are no classes, such as 10.5");
    assert!(refused.hint().unwrap().contains("--regression"));
    let regression = TableOptions { regression: true, ..TableOptions::default() };
    let targets = all(&read_text(prices, &regression).unwrap()).targets;
    assert_eq!(targets, Targets::Values { values: vec![10.5, 11.0], width: 1 });
}

#[test]
fn missing_values_are_named_filled_or_left_out() {
    let text = "a,b,y\n1,NA,0\n3,4,1\n,8,1\n";
    let refused = read_text(text, &TableOptions::default()).expect_err("missing");
    assert_eq!(refused.to_string(), "line 2: column b: the value is missing");
    assert!(refused.hint().unwrap().contains("--missing mean"));
    let with = |missing| TableOptions { missing: Some(missing), ..TableOptions::default() };
    let filled = read_text(text, &with(Missing::Mean)).unwrap();
    assert_eq!(all(&filled).inputs, [1.0, 6.0, 3.0, 4.0, 2.0, 8.0]);
    assert_eq!(filled.notes, ["missing values, in whose place are the means of their columns: 2"]);
    let dropped = read_text(text, &with(Missing::Drop)).unwrap();
    assert_eq!((all(&dropped).inputs, all(&dropped).targets), (vec![3.0, 4.0], Targets::Classes(vec![1])));
    assert_eq!(error("a,b,y\nNA,1,0\n,2,1\n", &with(Missing::Mean)), "all values of the column a are missing");
    assert_eq!(error("a,y\n1,\n", &with(Missing::Mean)), "line 2: column y: the value is missing");
}

#[test]
fn standardised_columns_have_mean_0_and_variance_1() {
    let options = TableOptions { standardize: true, ..TableOptions::default() };
    let table = read_text("a,b,y\n1,7,0\n3,7,1\n", &options).unwrap();
    assert_eq!(all(&table).inputs, [-1.0, 0.0, 1.0, 0.0]);
    assert_eq!(table.notes, ["2 columns are standardised with the means and variances of these 2 examples"]);
}

#[test]
fn a_mistake_is_named_with_its_line_and_column() {
    let options = TableOptions::default();
    assert_eq!(error("a,b\n1,0\nx,0\n", &options), "line 3: column a: \"x\" is not a number");
    assert!(error("a,b\n1,0\n1,0,0\n", &options).contains("line: 3"), "{}", error("a,b\n1,0\n1,0,0\n", &options));
    assert_eq!(error("a\n1\n", &options), "one column is not enough: each line needs inputs and a target");
    for empty in ["", "a,b\n"] {
        assert_eq!(error(empty, &options), "there is no example in it");
    }
    let named = TableOptions { target_column: Some("c".into()), ..options.clone() };
    assert_eq!(error("a,b\n1,0\n", &named), "there is no column \"c\"; the columns are a, b");
}

#[test]
fn quotes_byte_order_marks_and_windows_line_ends_are_understood() {
    let options = TableOptions { target_column: Some("b, \"c\"".into()), ..TableOptions::default() };
    let text = "\u{feff}\"a\",\"b, \"\"c\"\"\"\r\n1.5 , 2\r\n\r\n -1e1,0\r\n";
    let table = read_text(text, &options).unwrap();
    assert_eq!((all(&table).inputs, all(&table).targets), (vec![1.5, -10.0], Targets::Classes(vec![2, 0])));
}

/// Method: a file that grows with each read, as a packed one may.
#[test]
fn a_line_and_what_a_message_quotes_of_it_are_bounded() {
    let fields = "1,".repeat(LINE_BYTES_MAX);
    let quote = format!("x,y\n1,0\n2,\"{}", "a line\n".repeat(LINE_BYTES_MAX / 4));
    for text in [&fields, &quote] {
        let message = error(text, &TableOptions::default());
        assert!(message.contains("a line has more than 1048576 bytes"), "{}", &message[..message.len().min(200)]);
    }
    let long = "z".repeat(200_000);
    let table = format!("{long},y\n{long},0\n");
    let message = error(&table, &TableOptions { has_header: Some(true), ..TableOptions::default() });
    assert!(message.len() < 300 && message.contains(&long[..80]), "{}", &message[..message.len().min(400)]);
    let wide = format!("{}y\n", "x,".repeat(10_000));
    let wanted = TableOptions { target_column: Some("z".into()), has_header: Some(true), ..TableOptions::default() };
    assert!(error(&wide, &wanted).len() < 300);
    // Many lines of a permitted length are a table.
    let row = format!("{}0\n", "1,".repeat(100_000));
    assert_eq!(all(&read_text(&row.repeat(12), &TableOptions::default()).unwrap()).inputs.len(), 12 * 100_000);
}
