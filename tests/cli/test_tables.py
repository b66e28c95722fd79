# SPDX-License-Identifier: MIT
"""Data sets, as the library reads them: every syntax of tables, windows of signals, images by class and in pairs, against numpy."""
import gzip
import json
import os
import subprocess
import unittest
import zipfile

import numpy as np
from helper import CommandTest
from PIL import Image

DUMP = os.environ["GCONV_DATASET_DUMP"]
rng = np.random.default_rng(5)


class DataTest(CommandTest):
    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def dump(self, kind, name, status=0, env=None, **options):
        words = [f"{key.rstrip('_')}={value}" for key, values in options.items() for value in (values if isinstance(values, list) else [values])]
        result = subprocess.run([DUMP, kind, name, *words], cwd=self.folder, capture_output=True, text=True, errors="surrogateescape", timeout=60, env={**os.environ, **(env or {})}, check=False)
        self.assertEqual(result.returncode, status, result.stderr)
        return result

    def read(self, kind, name, **options):
        """The data set in the order of its cases: inputs, targets, and the rest."""
        found = json.loads(self.dump(kind, name, **options).stdout, strict=False)
        inputs = np.array(found["inputs"], np.float32).reshape(found["cases"], *found["shape"])[::-1]
        targets = np.array(found["targets"], np.float32).reshape(found["cases"], -1)[::-1]
        return inputs, targets, found

    def fails(self, fragments, kind, name, **options):
        text = self.dump(kind, name, status=1, **options).stderr
        for fragment in [fragments] if isinstance(fragments, str) else fragments:
            self.assertIn(fragment, text)
        return text


class Csv(DataTest):
    ROWS = [["5.1", "-3.5e-1", "red"], ["4.9", "3", "blue"], ["+.25", "1.0000001", "red"]]

    def table(self, separator=",", end="\n", header="width,height,colour"):
        rows = ([header.split(",")] if header else []) + self.ROWS
        return "".join(separator.join(row) + end for row in rows)

    def check(self, found, columns=("width", "height")):
        inputs, targets, info = found
        expected = np.array([[float(x) for x in row[:2]] for row in self.ROWS], np.float32)
        np.testing.assert_array_equal(inputs[:, :, 0, 0], expected)
        self.assertEqual(targets.ravel().tolist(), [0, 1, 0])
        self.assertEqual(info["classes"], ["red", "blue"])
        self.assertEqual(info["columns"], list(columns))

    def test_separators_and_ends(self):
        for separator in ",;\t ":
            for end in "\n", "\r\n", "\r":
                self.write("a.csv", self.table(separator, end))
                self.check(self.read("table", "a.csv"))
        for text in " " + self.table(" "), self.table(" ").replace("width ", '"width"\t'):  # aligned to the right; a tab behind a quote
            self.write("a.csv", text)
            self.check(self.read("table", "a.csv"))
        rows = np.random.default_rng(0).random((3, 900)).round(6)
        for separator, point in ((" ", "."), ("\t", "."), ("\t", ","), (";", ",")):  # the first line is longer than what is looked at
            text = "".join(separator.join(f"{x:.6f}".replace(".", point) for x in row) + f"{separator}{i}\n" for i, row in enumerate(rows))
            self.write("a.csv", text)
            np.testing.assert_array_equal(self.read("table", "a.csv")[0].reshape(3, 900), rows.astype(np.float32))
        self.write("a.csv", self.table().rstrip("\n"))
        self.check(self.read("table", "a.csv"))
        self.write("a.csv", "\ufeff" + self.table().replace("\n", "\n\n"))
        self.check(self.read("table", "a.csv"))

    def test_no_header_and_gzip(self):
        self.write("a.csv", self.table(header=None))
        self.check(self.read("table", "a.csv"), ())
        self.write("a.csv.gz", gzip.compress(self.table().encode()[:20]) + gzip.compress(self.table().encode()[20:]))
        self.check(self.read("table", "a.csv.gz"))
        self.write("short.gz", gzip.compress(self.table().encode())[:-9])
        self.fails("short.gz: the file ends too early", "table", "short.gz")

    def test_quotes(self):
        self.write("a.csv", '"a ""b""",c\n"1","two\nlines"\n 2 , "x,y" \n')
        inputs, targets, info = self.read("table", "a.csv")
        self.assertEqual(inputs.ravel().tolist(), [1, 2])
        self.assertEqual((info["columns"], info["classes"]), (["a \"b\""], ["two\nlines", "x,y"]))
        self.write("a.csv", '1,"a\n2,b\n')
        self.fails("a.csv:1: a quote (\") begins in this line, and none ends it", "table", "a.csv")
        self.write("a.csv", '1,a\n2,"b" c\n')
        self.fails("a.csv:2: field 2 goes on after the quote", "table", "a.csv")
        self.write("a.csv", '"1\n",a\n2,b\nx,b\n')
        self.fails("a.csv:4: column 1 (1?) is", "table", "a.csv")

    def test_columns_of_words(self):
        """As the adult data: no header, a blank after each comma, ? for a gap; each word becomes a column of 0 and 1."""
        rows = "39, State-gov, Male, <=50K\n50, ?, Female, >50K\n38, Private, Male, <=50K\n"
        names = ["1", "2=State-gov", "2=Private", "3=Male", "3=Female"]
        expected = [[39, 1, 0, 1, 0], [50, .5, .5, 0, 1], [38, 0, 1, 1, 0]]
        for header, expected_names in ("", names), ("age,work,sex,y\n", ["age", *("work" + n[1:] for n in names[1:3]), *("sex" + n[1:] for n in names[3:])]):
            self.write("a.csv", header + rows)
            inputs, targets, info = self.read("table", "a.csv", one_hot=1, missing="mean")
            self.assertEqual(inputs[:, :, 0, 0].tolist(), expected)  # a gap becomes the shares of the words
            self.assertEqual((info["columns"], targets.ravel().tolist(), info["classes"]), (expected_names, [0, 1, 0], ["<=50K", ">50K"]))
        self.write("a.csv", rows)
        self.fails("a.csv:2: column 2 is missing", "table", "a.csv", one_hot=1)
        self.fails("column 2 is \"State-gov\", which is no number", "table", "a.csv")
        self.write("b.csv", rows + "x, Private, Male, >50K\n")
        self.fails("b.csv:4: column 1: \"x\" stands in a column that has both words and numbers", "table", "b.csv", one_hot=1, missing="mean")
        self.write("c.csv", "".join(f"w{i},{i},{i % 2}\n" for i in range(1002)))
        self.fails("is one word too many", "table", "c.csv", one_hot=1)
        # A model keeps the names: its tables need no option, and may have their columns in another order
        self.write("d.csv", "y,sex,work,age\n>50K,Male,Private,38\n>50K,Male,Baker,38\n>50K,Male,,38\n")
        self.write("e.csv", "38,Private,Male,>50K\n")
        for header, table in ("age,work,sex,y\n", "d.csv"), ("", "e.csv"):
            self.write("a.csv", header + rows)
            done = self.gconv("svm", "a.csv", "--one-hot", "--missing", "mean", "-c", "100", "-o", "a.model")
            self.assertIn("2 columns of words became 4 of 0 and 1", done.stderr)
            done = self.gconv("classify", "a.model", table, "--missing", "mean")
            self.assertEqual(done.stdout.splitlines()[1], "1,<=50K")  # as the third row of the table, though labelled >50K
            self.assertEqual("1 word is not known to the model, so that all columns of the field are 0: \"Baker\" in line 3, of work" in done.stderr, table == "d.csv")

    def test_names_of_words(self):
        # A column A=B of numbers is no word of a field A of numbers
        self.write("a.csv", "A=B,y\n1,u\n2,v\n1,u\n")
        self.gconv("svm", "a.csv", "-o", "a.model")
        self.write("b.csv", "A,c\n1,3\n2,4\n")
        done = self.gconv("classify", "a.model", "b.csv", status=1)
        self.assertIn("b.csv:2: column 1 (A) is 1, a number, but the model takes it for a field of words", done.stderr)
        for header, row in ("a,a=b,y", "b=c,c"), ("a,a=b,y", "b,1"), ("a,a=b,y", "7,c"), ("a,a,y", "u,v"):
            self.write("c.csv", f"{header}\n{row},0\n{row},1\n")
            self.fails("could not tell them apart: rename one of the two", "table", "c.csv", one_hot=1)
        self.write("c.csv", "a,b,y\nb=c,c,0\n=,c=,1\n")
        self.assertEqual(self.read("table", "c.csv", one_hot=1)[2]["columns"], ["a=b=c", "a==", "b=c", "b=c="])
        # Other tables have no words
        self.write("d.txt", "1 1:2 3:4\n2 2:1\n")
        self.fails("is for words in CSV tables, and this table is libsvm", "table", "d.txt", one_hot=1)
        np.save(self.folder / "d.npy", np.eye(3))
        self.fails("is for words in CSV tables, and this table is npy", "table", "d.npy", one_hot=1)
        self.assertIn("--one-hot is for words", self.gconv("svm", "d.txt", "--one-hot", "-o", "d.model", status=(1, 2)).stderr)

    def test_label_by_name_and_number(self):
        self.write("a.csv", "kind,x,y\nb,1,2\na,3,4\n")
        for label in "kind", "KIND", "1":
            inputs, targets, info = self.read("table", "a.csv", label=label)
            self.assertEqual(inputs.reshape(2, 2).tolist(), [[1, 2], [3, 4]])
            self.assertEqual((info["classes"], info["columns"], targets.ravel().tolist()), (["b", "a"], ["x", "y"], [0, 1]))
        self.fails(["a.csv:2: column 1 (kind) is \"b\", which is no number", "'label' kind (now it is column 3 (y))"], "table", "a.csv")
        self.fails("a.csv: there is no column 'z'; there are kind, x, y", "table", "a.csv", label="z")
        self.fails("there is no column '4'", "table", "a.csv", label="4")
        self.write("b.csv", "1,2\n3,4\n")
        self.fails("the file has no header, so 'label' takes the number of the column, 1 to 2", "table", "b.csv", label="z")

    def test_header_of_numbers_is_known_by_the_label(self):
        self.write("a.csv", "0,1,target\n5,6,1\n7,8,0\n")
        inputs, targets, info = self.read("table", "a.csv", label="target")
        self.assertEqual((inputs.ravel().tolist(), info["columns"]), ([5, 6, 7, 8], ["0", "1"]))

    def test_header_that_counts(self):
        self.write("a.csv", "1,2,3,kind\n5,6,7,b\n7,8,9,a\n")
        inputs, targets, info = self.read("table", "a.csv")
        self.assertEqual((inputs.ravel().tolist(), info["columns"]), ([5, 6, 7, 7, 8, 9], ["1", "2", "3"]))
        self.assertIn("its first line is taken for a header, as no other case has the label \"kind\"", self.dump("table", "a.csv").stderr)
        self.write("a.csv", "kind,1,2,3\nb,5,6,7\na,7,8,9\n")
        self.assertEqual(self.read("table", "a.csv", label="1")[0].ravel().tolist(), [5, 6, 7, 7, 8, 9])

    def test_labels_that_are_numbers(self):
        self.write("a.csv", "x,y\n1,10\n2,9\n3,+9.0\n4,2\n")
        inputs, targets, info = self.read("table", "a.csv")
        self.assertEqual((info["classes"], targets.ravel().tolist()), (["2", "9", "10"], [2, 1, 1, 0]))
        inputs, targets, info = self.read("table", "a.csv", regression=1)
        self.assertEqual((info["classes"], targets.ravel().tolist(), info["outputs"]), ([], [10, 9, 9, 2], 1))
        self.write("a.csv", "x,y\n1,10\n2,9.5\n")
        self.fails("labels are numbers with fractions, such as 9.5: say 'regression'", "table", "a.csv")
        self.write("a.csv", "x,y\n1,10\n2,b\n")
        self.fails("a.csv:3: column 2 (y), of the targets, is \"b\", which is no number", "table", "a.csv", regression=1)

    def test_whole_numbers_that_are_no_classes(self):
        def write(labels):
            self.write("a.csv", "x,y\n" + "".join(f"{k},{label}\n" for k, label in enumerate(labels)))
        prices = [int(p) for p in rng.permutation(1000)[:60]]
        write(prices)
        inputs, targets, info = self.read("table", "a.csv")
        self.assertEqual((info["classes"], info["outputs"], targets.ravel().tolist()), ([], 1, prices))
        self.assertIn("a.csv: the labels of 60 cases are 60 whole numbers, and taken for numbers to be approximated, as by 'regression': 'classification'", self.dump("table", "a.csv").stderr)
        self.assertEqual(len(self.read("table", "a.csv", classification=1)[2]["classes"]), 60)
        self.assertNotIn("approximated", self.dump("table", "a.csv", classification=1).stderr)
        np.save(self.folder / "x.npy", np.zeros((60, 2)))
        np.save(self.folder / "y.npy", np.array(prices))
        self.assertEqual(self.read("table", "x.npy", targets="y.npy")[1].ravel().tolist(), prices)
        for labels, classes in (([k % 30 for k in range(90)], 30), ([k % 10 for k in range(15)], 10), ([k + 2000 for k in range(9)], 9), ([f"id{k}" for k in range(60)], 60)):
            write(labels)  # three cases each; few; texts
            self.assertEqual(len(self.read("table", "a.csv")[2]["classes"]), classes)
        for labels in ([k // 2 * 2 for k in range(30)] + [k + 100 for k in range(30)], list(range(1990, 2000))):
            write(labels)
            self.assertEqual(self.read("table", "a.csv")[2]["classes"], [])
        write([k // 2 * 2 for k in range(30)] + [k + 100 for k in range(30)])
        self.assertEqual(self.read("table", "a.csv")[2]["classes"], [])

    def test_known_classes(self):
        self.write("a.csv", "1,b\n2,a\n")
        inputs, targets, info = self.read("table", "a.csv", class_=["a", "b", "c"])
        self.assertEqual((info["classes"], targets.ravel().tolist()), (["a", "b", "c"], [1, 0]))
        self.fails("a.csv:1: the label \"b\" is none of the classes that are known from training", "table", "a.csv", class_=["a", "c"])

    def test_missing(self):
        self.write("a.csv", "x,y,c\n1,2,a\n,4,b\n5,?,a\nNA,8,b\n")
        self.fails("a.csv:3: column 1 (x) is missing: missing=mean", "table", "a.csv")
        inputs, targets, info = self.read("table", "a.csv", missing="mean")
        np.testing.assert_array_equal(inputs.reshape(4, 2), np.float32([[1, 2], [3, 4], [5, 14 / 3], [3, 8]]))
        self.write("a.csv", "x,y,c\n1,2,a\n,4,b\n5,6,\n7,8,b\n")
        inputs, targets, info = self.read("table", "a.csv", missing="drop")
        self.assertEqual((inputs.ravel().tolist(), targets.ravel().tolist()), ([1, 2, 7, 8], [0, 1]))
        self.assertIn("2 lines were left out", self.dump("table", "a.csv", missing="drop").stderr)
        self.fails("a.csv:4: column 3 (c), of the labels, is missing", "table", "a.csv", missing="mean")
        self.write("a.csv", "x,c\n,a\n,b\n")
        self.fails("column 1 (x) has no number at all", "table", "a.csv", missing="mean")
        self.fails("every line lacks a number", "table", "a.csv", missing="drop")
        self.fails("missing is 'x': there are mean and drop", "table", "a.csv", missing="x")

    def test_cases_keep_the_numbers_of_their_rows(self):
        self.write("a.csv", "x,c\n" + "".join(f"{'' if k in (0, 3, 7) else k},{'' if k == 5 else 'ab'[k % 2]}\n" for k in range(10)))
        inputs, targets, info = self.read("table", "a.csv", missing="drop")
        self.assertEqual((info["rows"], inputs.ravel().tolist()), ([1, 2, 4, 6, 8, 9], [1, 2, 4, 6, 8, 9]))
        self.assertEqual("".join(info["classes"][int(t)] for t in targets.ravel()), "baaaab")
        self.assertIn("a.csv: 4 lines were left out, as numbers or labels are missing: 2, 5, 7, 9\n", self.dump("table", "a.csv", missing="drop").stderr)
        part, _, info = self.read("table", "a.csv", missing="drop", split=0.5)
        self.assertEqual(info["rows"], part.ravel().tolist())
        # Targets in a file of their own: a row is left out if either file lacks it.
        self.write("x.csv", "x\n" + "".join(f"{'NA' if k in (0, 3) else k}\n" for k in range(6)))
        self.write("y.csv", "".join(f"{'NA' if k in (3, 4) else k % 3}\n" for k in range(6)))
        inputs, targets, info = self.read("table", "x.csv", targets="y.csv", missing="drop")
        self.assertEqual((info["rows"], inputs.ravel().tolist(), [info["classes"][int(t)] for t in targets.ravel()]), ([1, 2, 5], [1, 2, 5], ["1", "2", "2"]))
        np.save(self.folder / "x.npy", np.array([[1, 2], [np.nan, 3], [5, 6]]))
        np.save(self.folder / "y.npy", np.array([7.0, 8, 9]))
        inputs, targets, info = self.read("table", "x.npy", targets="y.npy", missing="drop", regression=1)
        self.assertEqual((info["rows"], inputs.ravel().tolist(), targets.ravel().tolist()), ([0, 2], [1, 2, 5, 6], [7, 9]))
        self.assertIn("x.npy: 1 row was left out, as numbers or labels are missing: 2\n", self.dump("table", "x.npy", targets="y.npy", missing="drop").stderr)

    def test_gaps_of_other_programs(self):
        gaps = ("", "NA", "<NA>", "N/A", "n/a", "#N/A", "#NA", "#N/A N/A", "NaN", "nan", "-nan", "null", "NULL", "None", "missing", "?", ".",
                "\\N", "1.#QNAN", "-1.#IND", "#NV", "nan(ind)")
        for separator in ",;\t":
            self.write("a.csv", "".join(separator.join(row) + "\n" for row in [["x", "y", "c"], ["1", "2", "a"]] +
                                        [[gap, "4", "b"] for gap in gaps] + [["3", "5", "a"]]))
            inputs, _, _ = self.read("table", "a.csv", missing="mean")
            self.assertEqual(inputs[:, 0].ravel().tolist(), [1] + [2] * len(gaps) + [3])
            self.assertEqual(self.read("table", "a.csv", missing="drop")[0].ravel().tolist(), [1, 2, 3, 5])
            self.fails("a.csv:3: column 1 (x) is missing: missing=mean", "table", "a.csv")
        for gap in gaps:
            name = gap in ("None", "missing")  # which classes may be called
            self.write("a.csv", f"x,c\n1,a\n2,{gap}\n3,b\n4,a\n5,b\n")
            if not name:
                self.fails("a.csv:3: column 2 (c), of the labels, is missing", "table", "a.csv")
            self.assertEqual(self.read("table", "a.csv", missing="drop")[2]["classes"], ["a", "None", "b"] if gap == "None" else ["a", "missing", "b"] if name else ["a", "b"])
            self.write("a.csv", f"x,c\n1,1.5\n2,{gap}\n3,2.5\n")
            self.assertEqual(self.read("table", "a.csv", missing="drop", regression=1)[1].ravel().tolist(), [1.5, 2.5])
        for text, wanted in (("-1 -1 -1\n? NaN NA\n", "fann"), ("", "letters")):
            if wanted == "fann":
                self.write("a.data", "3 2 1\n1 2\n7\n? NaN\n8\n3 4\nNA\n")
            else:
                self.write("a.data", "1, 2\n7,1,2\n8,?,NaN\nNA,3,4\n")
            self.assertEqual(self.read("table", "a.data", missing="drop", syntax=wanted)[0].ravel().tolist(), [1, 2], wanted)
            self.fails("a target is missing: missing=drop", "table", "a.data", missing="mean", syntax=wanted)
        self.write("#.csv", "#N/A,1,a\n2,3,b\n")  # no comment
        self.fails("#.csv:1: column 1 is missing", "table", "#.csv")
        self.write("#.csv", "# a comment\n#\n#,x,c\n1,2,a\n2,3,b\n")
        self.assertEqual(self.read("table", "#.csv")[2]["columns"], ["#", "x"])

    def test_comments_that_name_the_columns(self):
        """As numpy.savetxt() writes them. Others are none."""
        for text, names in [("# x,y,c\n1,2,0\n3,4,1\n", ["x", "y"]), ("#x,y,c\n1,2,0\n3,4,1\n", ["x", "y"]), ("# x y c\n1 2 0\n3 4 1\n", ["x", "y"]),
                            ("# made\n# x\ty\tc\n1\t2\t0\n3\t4\t1\n", ["x", "y"]), ("# made by a program, twice\n1 2 0\n3 4 1\n", []),
                            ("# 1.5,x,c\n1,2,0\n3,4,1\n", []), ("# x,y\n1,2,0\n3,4,1\n", []), ("# \"x\"y,z,c\n1,2,0\n3,4,1\n", []),
                            ("# p,q,r\nx,y,c\n1,2,0\n3,4,1\n", ["x", "y"])]:
            self.write("a.csv", text)
            inputs, targets, info = self.read("table", "a.csv")
            self.assertEqual((info["columns"], inputs.ravel().tolist(), targets.ravel().tolist()), (names, [1, 2, 3, 4], [0, 1]), text)
            said = "the comment above its first row is taken for the names of the columns"
            self.assertEqual(said in self.dump("table", "a.csv").stderr, bool(names) and "p,q" not in text)

    def test_long_data_of_fann_in_lines_of_three_numbers(self):
        """No table, though each line has as many numbers: the first one counts."""
        rows = "".join(f"0.{k:03} 0.{k % 7} {k % 2}\n" for k in range(600))
        self.write("a.data", "600 2 1\n" + rows)
        self.fails("its first line counts cases, inputs and outputs, as that of FANN's data: name the syntax, fann", "table", "a.data")
        self.assertEqual(self.read("table", "a.data", syntax="fann")[0].shape[0], 600)
        self.assertEqual(self.read("table", "a.data", syntax="csv")[0].shape[0], 601)
        self.write("a.data", "599 2 1\n" + rows)
        self.assertEqual(self.read("table", "a.data")[0].shape[0], 601)

    def test_files_of_targets_as_pandas_writes_them(self):
        """Series.to_csv() has an index and a name; a name above texts is no label; `label` picks one of several columns."""
        self.write("x.csv", ",a,b\n" + "".join(f"{k},{k / 2},{k}\n" for k in range(6)))
        words, ones = [f"{'uv'[k % 2]}\n" for k in range(6)], [f"{k % 2}\n" for k in range(6)]
        numbered = [f"{k},{one}" for k, one in enumerate(ones)]
        for head, rows, options, classes in ((",y", [f"{k},{word}" for k, word in enumerate(words)], {}, ["u", "v"]), (",y", numbered, {}, ["0", "1"]),
                                             ("y", words, {}, ["u", "v"]), ("y", ones, {}, ["0", "1"]), ("y", words, {"label": "y"}, ["u", "v"]),
                                             ("id,y", numbered, {"label": "y"}, ["0", "1"]), ("y,id", [f"{k % 2},{k}\n" for k in range(6)], {"label": "y"}, ["0", "1"])):
            self.write("y.csv", head + "\n" + "".join(rows))
            inputs, targets, info = self.read("table", "x.csv", targets="y.csv", **options)
            self.assertEqual((info["classes"], targets.ravel().tolist()), (classes, [0, 1, 0, 1, 0, 1]), head)
        self.write("y.csv", ",y,z\n" + "".join(f"{k},{k / 2},{k / 4}\n" for k in range(6)))
        inputs, targets, info = self.read("table", "x.csv", targets="y.csv")
        self.assertEqual(targets.ravel().tolist(), [k / d for k in range(6) for d in (2, 4)])
        self.write("y.csv", "y\n" + "".join(f"{k / 2}\n" for k in range(6)))
        self.assertEqual(self.read("table", "x.csv", targets="y.csv", regression=1)[1].ravel().tolist(), [k / 2 for k in range(6)])
        self.write("y.csv", "id,y\n" + "".join(numbered))
        self.assertIn("y.csv: column 1 counts the rows, and is learned as a target", self.dump("table", "x.csv", targets="y.csv").stderr)
        self.write("y.csv", "y\n" + "".join(words[:5]))  # one is missing: it must not move the others
        self.fails("y.csv: has the targets of 5 cases, and x.csv has 6", "table", "x.csv", targets="y.csv")

    def test_doubts_that_are_told(self):
        self.write("a.csv", "x;c\n" + "".join(f"{k}.000;{k % 2}\n" for k in range(1, 5)))
        self.assertIn("a.csv: 1.000 in line 2 is taken for a fraction", self.dump("table", "a.csv").stderr)
        self.write("a.csv", "x;c\n" + "".join(f"{k}.500;{k % 2}\n" for k in range(4)))  # 0.500 is a fraction
        self.assertEqual(self.dump("table", "a.csv").stderr, "")
        self.write("a.csv", "x,c\n" + "".join(f"{2 ** 60 + k},{k % 2}\n" for k in range(4)))
        self.assertIn("a.csv: column 1 (x): all its numbers are 1.152921504606847e+18 in float64, which rounds them", self.dump("table", "a.csv").stderr)
        self.write("a.csv", "kind,x\n" + "".join(f"{k % 2},{3 * k}\n" for k in range(7)))
        self.assertIn("a.csv: each of its 7 cases has a class of its own", self.dump("table", "a.csv").stderr)
        self.assertEqual(self.dump("table", "a.csv", label="kind").stderr, "")

    def test_headers_of_numbers(self):
        rows = [[5, 6, 7], [7, 8, 9], [6, 5, 4], [3, 5, 2]]
        for first, labels in (("2019,2020,2021,label", "0110"), ("2019,2020,2021,label", "abba"), ("1950,1960,1970,y", ["4.0", "2", "4", "1"]),
                              ("400,410.5,430,kind", "abba"), ("1,2,3,kind", "abba"), ("0,1,2,kind", "abca"), ("2019,2020,2021,kind", "abcd"),
                              (",2019,2020,kind", "abba"), ("0,1,2,3", "1001"), ("2019,2020,2021,2022", "1001"), ("2019;2020;2021;label", "0110")):
            index = first[0] == ","
            separator = ";" if ";" in first else ","
            body = [[k if index and not column else x for column, x in enumerate(row)] for k, row in enumerate(rows)]
            self.write("a.csv", first + "\n" + "".join(separator.join(map(str, row + [label])) + "\n" for row, label in zip(body, labels)))
            inputs, targets, info = self.read("table", "a.csv")
            self.assertEqual(inputs.reshape(4, -1).tolist(), [row[1:] if index else row for row in rows], first)
            self.assertEqual(info["columns"], first.split(separator)[index:3], first)
            self.assertEqual([float(info["classes"][int(t)]) if labels[0].isdigit() or "." in labels[0] else info["classes"][int(t)] for t in targets.ravel()],
                             [float(l) if labels[0].isdigit() or "." in labels[0] else l for l in labels])
            self.assertIn("is taken for a header", self.dump("table", "a.csv").stderr)
        self.write("a.csv", "height,2019,2020,kind\n5,6,7,a\n7,8,9,b\n")
        self.assertEqual(self.read("table", "a.csv")[2]["columns"], ["height", "2019", "2020"])
        # Regression and new cases of a model that knows its classes, and means without the header.
        self.write("a.csv", "2019,2020,2021,price\n5,6,7,1.5\n7,,9,2.5\n3,4,5,3.5\n")
        self.assertEqual(self.read("table", "a.csv", regression=1, missing="mean")[0].ravel().tolist(), [5, 6, 7, 7, 5, 9, 3, 4, 5])
        self.write("a.csv", "2019,2020,kind\n5,6,a\n7,9,b\n")
        self.assertEqual(self.read("table", "a.csv", class_=["a", "b"])[0].ravel().tolist(), [5, 6, 7, 9])
        self.assertEqual(self.read("table", "a.csv", class_=["a", "b"], unlabelled=1, label=3)[0].ravel().tolist(), [5, 6, 7, 9])
        self.write("a.csv", "0,1,2,3\n5,6,7,8\n2,3,4,5\n3,3,4,5\n")  # a class of one case besides
        self.assertEqual(self.read("table", "a.csv")[0].ravel().tolist(), [5, 6, 7, 2, 3, 4, 3, 3, 4])
        self.write("a.csv", "0,1,2,3\n5,6,7,8\n2,3,4,5\n")
        self.assertEqual(self.read("table", "a.csv", unlabelled=1)[0].ravel().tolist(), [5, 6, 7, 8, 2, 3, 4, 5])
        self.assertEqual(self.read("table", "a.csv", regression=1)[1].ravel().tolist(), [8, 5])

    def test_no_headers(self):
        """Numbers with a class above others that are as rare, or that recurs, are a case."""
        for text, inputs in (("1,2,a\n3,4,b\n", [1, 2, 3, 4]), ("1,2,3,a\n4,5,6,a\n7,8,9,b\n", range(1, 10)), ("2019,2020,a\n2021,2022,b\n3,4,a\n", [2019, 2020, 2021, 2022, 3, 4]),
                             ("0,1,2,3\n4,5,6,7\n8,9,10,11\n", [0, 1, 2, 4, 5, 6, 8, 9, 10]), ("5.5,4,a\n4,5,b\n5,6,c\n", [5.5, 4, 4, 5, 5, 6])):
            self.write("a.csv", text)
            self.assertEqual(self.read("table", "a.csv")[0].ravel().tolist(), list(inputs), text)
            self.assertEqual(self.read("table", "a.csv")[2]["columns"], [])
        self.write("a.csv", "0,1,2,3\n4,5,6,7\n")
        self.assertEqual(self.read("table", "a.csv", unlabelled=1)[0].ravel().tolist(), list(range(8)))

    def test_numbers_of_rows_are_left_out(self):
        for text in (",x,y,c\n0,1,2,a\n1,3,4,b\n", "Unnamed: 0,x,y,c\n57,1,2,a\n3,3,4,b\n", "\"\",\"x\",\"y\",\"c\"\n\"Fiat 128\",1,2,\"a\"\n\"Mazda\",3,4,\"b\"\n",
                     "x y c\n1 1 2 a\n2 3 4 b\n", ",x,y,c\n12:30:00,1,2,a\n12:31:00,3,4,b\n", ",Unnamed: 0,x,y,c\n0,0,1,2,a\n1,1,3,4,b\n"):
            self.write("a.csv", text)
            inputs, targets, info = self.read("table", "a.csv")
            self.assertEqual((inputs.ravel().tolist(), info["columns"], targets.ravel().tolist()), ([1, 2, 3, 4], ["x", "y"], [0, 1]), text)
            self.assertIn("column 1, which has no name, is taken for the numbers of rows, and left out", self.dump("table", "a.csv").stderr)
        self.write("a.csv", ",x\n0,1.5\n1,2.5\n")
        self.assertEqual(self.read("table", "a.csv", unlabelled=1)[0].ravel().tolist(), [1.5, 2.5])
        self.write("a.csv", ",x,c\n0.5,1,a\n1.5,3,b\n")  # numbers without a name
        self.assertEqual(self.read("table", "a.csv")[0].ravel().tolist(), [0.5, 1, 1.5, 3])
        self.write("a.csv", ",x,c\n0,1,a\n1.5,3,b\n")
        self.fails("a.csv:3: column 1, which has no name and was taken for the numbers of rows, is 1.5", "table", "a.csv")
        self.write("a.csv", ",x\na,1\nb,2\n")
        self.assertEqual(self.read("table", "a.csv", label="1")[2]["classes"], ["a", "b"])

    def test_times_are_no_entries_of_libsvm(self):
        for text, column in (("12:30\t1.5\tyes\n12:45\t2.5\tno\n", 1), ("5\t12:30\t7\n6\t12:40\t8\n", 2), ("12:30 1.5 yes\n12:45 2.5 no\n", 1)):
            self.write("a.csv", text)
            self.fails(f'a.csv:1: column {column} is "12:30", which is no number', "table", "a.csv")

    def test_wide_lines_behind_a_mark_of_utf_8(self):
        """Of lines that do not fit into what is looked at, the last one does not count."""
        row = ";".join(["1,5"] * 700)
        self.write("a.csv", ("\ufeff" + row + ";a\n" + row + ";b\n"))
        self.assertEqual(self.read("table", "a.csv")[2]["shape"], [700, 1, 1])

    def test_names(self):
        self.write("a.csv", "x,x,c,c\n1,2,a,b\n3,4,b,a\n")
        self.fails("2 columns are called 'c': say the number", "table", "a.csv", label="c")
        self.write("a.csv", b"gr\xfc\xdfe,c\n1,a\n2,b\n")
        self.fails("the name of column 1, \"gr", "table", "a.csv")
        self.write("a.csv", "sep=;\nx;y;c\n1,5;2;a\n3;4;b\n")
        self.assertEqual(self.read("table", "a.csv")[0].ravel().tolist(), [1.5, 2, 3, 4])

    def test_errors(self):
        for text, message in [
                ("1,2,a\n3,b\n", "a.csv:2: has 2 fields, where line 1 has 3"),
                ("1,2,a\n3,4,b\n5,6,7,a\n", "a.csv:3: has 4 fields, where line 1 has 3"),
                ("1,2,a\n3,nan,b\n", "a.csv:2: column 2 is missing: missing=mean puts in"),
                ("1,2,a\n-inf,3,b\n", "a.csv:2: column 1 is -inf: numbers must be finite"),
                ("1,2,a\n3,1e39,b\n", "a.csv:2: column 2 is 1e39: numbers must be finite, and fit into float32"),
                ("1,2,a\n3,0x10,b\n", "a.csv:2: column 2 is \"0x10\", which is no number"),
                ("1,2,3\n3,4,nan\n", "a.csv:2: column 3, of the labels, is missing (nan): missing=drop leaves such lines out"),
                ("1,2,3\n3,4,None\n5,4,2\n", "a.csv: a label is None, and all others are numbers: where the class is not known, leave"),
                ("1,2,a\n3,#DIV/0!,b\n", "a.csv:2: column 2 is \"#DIV/0!\", which is no number"),
                ("1,2,-inf\n3,4,1\n5,6,0\n", "a.csv: a label is -inf, and all others are numbers"),
                ("1,2,a\n3,4,a\n", "all cases have the label \"a\": there must be two classes"),
                ("", "a.csv: the file is empty"), ("\n\n", "a.csv: has no cases"), ("x,y\n", "a.csv: has no cases"),
                (b"1,a\n2,caf\xe9\n", "is no UTF-8, which networks keep their classes in: convert it"), ("a\nb\n", "has a column of labels alone"), ("1,2\x00,a\n", "a.csv:1: has a byte 0")]:
            self.write("a.csv", text)
            self.fails(message, "table", "a.csv")
        self.fails("none.csv: cannot open", "table", "none.csv")

    def test_words_that_read_as_numbers(self):
        self.write("a.csv", "1,None\n2,inf\n3,de\n")  # names beside another
        self.assertEqual(self.read("table", "a.csv")[2]["classes"], ["None", "inf", "de"])
        self.assertIn("\"None\" is taken for the name of a class: where the class is not known, leave", self.dump("table", "a.csv").stderr)

    def test_decimal_commas(self):
        self.write("a.csv", "x;y;c\n1,5;2;a\n-0,25;3,0;b\n")
        self.assertEqual(self.read("table", "a.csv")[0].ravel().tolist(), [1.5, 2, -0.25, 3])
        self.write("b.csv", "1,5;2,25;a\n-0,25;3,0;b\n")  # no header, and as many commas as semicolons
        inputs, _, info = self.read("table", "b.csv")
        self.assertEqual((inputs.ravel().tolist(), info["columns"]), ([1.5, 2.25, -0.25, 3], []))
        self.write("c.csv", "1,5;2,25;3,5\n-0,25;3,0;4,5\n")
        self.assertEqual(self.read("table", "c.csv", regression=1)[1].ravel().tolist(), [3.5, 4.5])
        for text in ("x\ty\tc\n1,5\t2\ta\n-0,25\t3,0\tb\n", "1,5\t2\ta\n-0,25\t3,0\tb\n", "1,5\t2,0\ta\n-0,25\t3,0\tb\n"):
            self.write("t.tsv", text)
            self.assertEqual(self.read("table", "t.tsv")[0].ravel().tolist(), [1.5, 2, -0.25, 3])
        self.write("t.tsv", "1, 2,\ta\n3, 4,\tb\n")  # commas, and blanks behind them
        self.assertEqual(self.read("table", "t.tsv")[0].ravel().tolist(), [1, 2, 3, 4])
        self.write("l.csv", "x;c\n1,5;1,0\n2,5;1\n3,5;2\n")  # labels, too
        self.assertEqual(self.read("table", "l.csv")[2]["classes"], ["1", "2"])
        self.write("l.csv", "x;c\n1,5;1,5\n2,5;1\n3,5;2\n")
        self.fails("labels are numbers with fractions, such as 1.5", "table", "l.csv")
        for text, message in (("x;c\n0,5;a\n1.234;b\n", "m.csv:3: either 1.234 has a mark of thousands, or 0,5 in line 2 has one"),
                              ("x;c\n1,234;a\n0.5;b\n", "m.csv:2: either 1,234 has a mark of thousands, or 0.5 in line 3 has one"),
                              ("x;c\n1.234,5;a\n1;b\n", "column 1 (x) is \"1.234,5\", which is no number: write 1234.5 without marks"),
                              ("x;c\n1,234,567;a\n1;b\n", "is \"1,234,567\", which is no number: write"), ("x;c\n1 234;a\n1;b\n", "is \"1 234\", which is no number: write"),
                              ("x,c\n\"1,234\",a\n1,b\n", "is \"1,234\", which is no number: write"), ("x\tc\n1'234\ta\n1\tb\n", "is \"1'234\", which is no number: write")):
            self.write("m.csv", text)
            self.fails(message, "table", "m.csv")
        self.write("m.csv", "x;c\n1,234;a\n12,500;b\n")
        self.assertEqual(self.read("table", "m.csv")[0].ravel().tolist(), [np.float32(1.234), 12.5])
        self.assertIn("1,234 in line 2 is taken for a fraction", self.dump("table", "m.csv").stderr)
        self.write("d.csv", "1,5;x;a\n2,5;1;b\n")
        self.fails("d.csv:1: column 2 is \"x\"", "table", "d.csv")

    def test_unlabelled(self):
        self.write("a.csv", "x,y\n1,2\n3,4\n")
        inputs, targets, info = self.read("table", "a.csv", unlabelled=1)
        self.assertEqual((inputs.ravel().tolist(), info["outputs"], info["columns"]), ([1, 2, 3, 4], 0, ["x", "y"]))
        self.write("b.csv", "x,c\n1,a\n3,b\n")
        self.assertEqual(self.read("table", "b.csv", unlabelled=1, label="c")[0].ravel().tolist(), [1, 3])

    def test_targets_in_a_file_of_their_own(self):
        self.write("a.csv", "x,y\n1,2\n3,4\n")
        self.write("t.csv", "dog\ncat\n")
        inputs, targets, info = self.read("table", "a.csv", targets="t.csv")
        self.assertEqual((info["classes"], targets.ravel().tolist()), (["dog", "cat"], [0, 1]))
        self.write("t.csv", "1,.5\n2,.25\n")
        self.assertEqual(self.read("table", "a.csv", targets="t.csv")[1].tolist(), [[1, 0.5], [2, 0.25]])
        self.write("t.csv", "1,.5\n")
        self.fails("t.csv: has the targets of 1 cases, and a.csv has 2", "table", "a.csv", targets="t.csv")
        self.write("t.csv", "kind\ndog\ncat\n")
        self.fails("if its first line is the name of the column, give that name with 'label'", "table", "a.csv", targets="t.csv")
        self.assertEqual(self.read("table", "a.csv", targets="t.csv", label="kind")[2]["classes"], ["dog", "cat"])

    def test_many_numbers_are_read_as_python_does(self):
        numbers = rng.standard_normal((200, 7)) * 10.0 ** rng.integers(-30, 30, (200, 7))
        for form in "%.3g", "%.17g", "%.20f":
            texts = [[form % x for x in row] for row in numbers]
            self.write("a.csv", "".join(",".join(row) + f",{i % 2}\n" for i, row in enumerate(texts)))
            expected = np.array([[float(x) for x in row] for row in texts]).astype(np.float32)
            np.testing.assert_array_equal(self.read("table", "a.csv")[0].reshape(200, 7), expected)


class OtherSyntaxes(DataTest):
    def test_libsvm(self):
        text = "+1 1:0.5 4:-2 # a comment\n-1 2:1e-3\n\n1\n-1.0 3:7 5:1\n"
        self.write("a.libsvm", text)
        inputs, targets, info = self.read("table", "a.libsvm")
        expected = np.float32([[0.5, 0, 0, -2, 0], [0, 1e-3, 0, 0, 0], [0] * 5, [0, 0, 7, 0, 1]])
        np.testing.assert_array_equal(inputs.reshape(4, 5), expected)
        self.assertEqual((info["classes"], targets.ravel().tolist()), (["-1", "1"], [1, 0, 1, 0]))
        self.assertEqual(self.read("table", "a.libsvm", columns=7)[0].shape, (4, 7, 1, 1))
        self.assertEqual(self.read("table", "a.libsvm", regression=1)[1].ravel().tolist(), [1, -1, 1, -1])
        self.assertEqual(self.read("table", "a.libsvm", unlabelled=1)[2]["outputs"], 0)
        for line, message in [("1 0:1 0:1", "index 0 follows 0"), ("1 2:1 2:3", "index 2 follows 2: indices must ascend"), ("1 a:1", "\"a:1\" is not INDEX:VALUE"),
                              ("1 3", "\"3\" is not INDEX:VALUE"), ("1 3:nan", "\"3:nan\" is missing: missing=drop leaves"), ("1 3:inf", "numbers must be finite"), ("1 3:x", "no number after the colon"),
                              ("2:1 3:1", "where a label is expected"), ("1,2 3:1", "has several labels"), ("1 4294967297:1", "4294967297 columns; a table may have 16777216"),
                              ("1 42949672970:1", "42949672970 columns; a table may have 16777216")]:
            self.write("b.libsvm", "1 1:1\n2 1:1\n" + line + "\n")
            self.fails([message, "b.libsvm:3: " if "16777216" not in message else "b.libsvm"], "table", "b.libsvm")

    def test_libsvm_as_others_write_it(self):
        """scikit-learn counts from 0, and may write comments, qid and lines without entries first."""
        wanted = [[5, 0, 7], [0, 6, 0], [0, 0, 0]]
        for text in ("1 0:5 2:7\n0 1:6\n1\n", "# Generated by scikit-learn\n#\n1 qid:1 0:5 2:7\n0 qid:2 1:6\n1 qid:3\n", "1 1:5 3:7 # first\n\n0 2:6\n1 # none\n",
                     "# Column indices are one-based\n1 1:5 3:7\n0 2:6\n1\n", "1 1:5 3:7\r\n0 2:6\r\n1\r\n"):
            self.write("a.txt", text)
            inputs, targets, _ = self.read("table", "a.txt", columns=3)
            self.assertEqual((inputs.reshape(3, 3).tolist(), targets.ravel().tolist()), (wanted, [1, 0, 1]), text)
        self.write("a.txt", "\ufeff1 1:5 3:7\n0 2:6\n1\n")
        self.assertEqual(self.read("table", "a.txt")[0].reshape(3, 3).tolist(), wanted)
        self.write("a.txt", "1\n0 qid:4 2:6\n1 1:5 3:7\n")  # what is first does not tell
        self.assertEqual(self.read("table", "a.txt")[0].reshape(3, 3).tolist(), [[0, 0, 0], [0, 6, 0], [5, 0, 7]])
        self.assertIn("qid) are passed over", self.dump("table", "a.txt").stderr)
        self.write("a.txt", "# Column indices are zero-based\n1 1:5 3:7\n0 2:6\n")
        self.assertEqual(self.read("table", "a.txt")[0].reshape(2, 4).tolist(), [[0, 5, 0, 7], [0, 0, 6, 0]])
        self.assertIn("its indices begin with 0", self.dump("table", "a.txt").stderr)
        self.write("a.txt", "1,2 1:5\n0 2:6\n")
        self.fails("a.txt:1: has several labels, \"1,2\": gconv takes one a case", "table", "a.txt")
        self.write("a.txt", "1:5\n2:6\n")  # without labels
        self.fails("begins with \"1:5\", where a label is expected", "table", "a.txt")
        self.assertEqual(self.read("table", "a.txt", unlabelled=1)[0].reshape(2, 2).tolist(), [[5, 0], [0, 6]])
        self.write("a.txt", "1 1:5\n0 2:nan\n0 2:7\n")
        self.assertEqual(self.read("table", "a.txt", missing="drop")[0].reshape(2, 2).tolist(), [[5, 0], [0, 7]])

    def test_libsvm_of_too_many_columns_is_not_trained_on(self):
        self.write("w.libsvm", "1 1:1 16777216:1\n2 2:1\n")
        result = self.gconv("train", "--table", "w.libsvm", "--net", "dense 2 softmax", "-o", "n.safetensors", "--normalize", "no", status=1)
        self.assertIn("layer 1, a dense one, has 16777216 inputs: at most 4194304 can be trained", result.stderr)

    def test_libsvm_takes_memory_by_its_entries(self):
        self.write("a.libsvm", "".join(f"{i % 2} 16000000:1\n" for i in range(2000)))
        self.fails("", "table", "a.libsvm", split=2)  # opened, in a moment; the fraction is refused

    def test_fann(self):
        self.write("xor.data", "4 2 1\n-1 -1\n-1\n-1 1\n1\n1 -1\n1\n1 1\n-1\n")
        inputs, targets, info = self.read("table", "xor.data")
        self.assertEqual(inputs.reshape(4, 2).tolist(), [[-1, -1], [-1, 1], [1, -1], [1, 1]])
        self.assertEqual((targets.ravel().tolist(), info["classes"]), ([-1, 1, 1, -1], []))
        inputs, targets, info = self.read("table", "xor.data", classification=1)
        self.assertEqual((targets.ravel().tolist(), info["classes"]), ([0, 1, 1, 0], ["-1", "1"]))
        self.assertEqual(self.read("table", "xor.data", class_=["1", "-1"])[1].ravel().tolist(), [1, 0, 0, 1])
        for text, message in [("2 2 1\n1 2\n3\n1\n", "fewer cases follow"), ("2 2 1\n1 2\n3\n1 2\n", "fewer cases follow"),
                              ("1 2 1\n1 2\n3\n1 2\n", "b.data:4: numbers follow the last case"), ("1 2 1\n1 x\n3\n", "b.data:2: \"x\" is no number"),
                              ("1 2 1\n1 inf\n3\n", "b.data:2: number 2 is inf"), ("2 2\n1 2\n", "first line must have")]:
            self.write("b.data", text)
            self.fails(message, "table", "b.data", syntax="fann")

    def test_fann_in_lines_of_any_length(self):
        numbers = ["-1", "-1", "-1", "-1", "1", "1", "1", "-1", "1", "1", "1", "-1"]
        for text in ("4 2 1\n" + "\n".join(numbers), "4 2 1\n" + " ".join(numbers) + "\n", "4 2 1 " + " ".join(numbers) + "\n",
                     "4 2 1\n" + "".join(" ".join(numbers[i:i + 3]) + "\n" for i in range(0, 12, 3)), "4 2 1\n\n-1 -1\n\n-1\n" + " ".join(numbers[3:])):
            self.write("xor.data", text)
            inputs, targets, _ = self.read("table", "xor.data")
            self.assertEqual((inputs.reshape(4, 2).tolist(), targets.ravel().tolist()), ([[-1, -1], [-1, 1], [1, -1], [1, 1]], [-1, 1, 1, -1]), text)
        many = rng.integers(0, 9, (900, 3))
        self.write("many.data", "900 2 1\n" + "\n".join(" ".join(map(str, part)) for part in np.array_split(many.ravel(), 300 * 7)))
        np.testing.assert_array_equal(self.read("table", "many.data")[0].reshape(900, 2), many[:, :2])

    def test_letters(self):
        self.write("a.txt", "2, 3\n1,0,5,6,7\n0,1,8,9,10\n0, 1, 0.5, 0, 0\n")
        inputs, targets, info = self.read("table", "a.txt")
        self.assertEqual(inputs.reshape(3, 3).tolist(), [[5, 6, 7], [8, 9, 10], [0.5, 0, 0]])
        self.assertEqual((info["classes"], targets.ravel().tolist()), (["1", "2"], [0, 1, 1]))
        self.assertEqual(self.read("table", "a.txt", regression=1)[1].tolist(), [[1, 0], [0, 1], [0, 1]])
        self.write("a.txt", "2 3\n1 -1 5 6 7\n-1 1 8 9 10\n")
        self.assertEqual(self.read("table", "a.txt")[1].tolist(), [[1, -1], [-1, 1]])
        self.write("a.txt", "2, 3\n1,0,5,6,7\n0,1,8,9\n")
        self.fails("a.txt:3: has 4 numbers, where 2 targets and 3 inputs are expected", "table", "a.txt")

    def npy(self, name, array, **options):
        np.save(self.folder / name, array, **options)

    def test_npy(self):
        table = rng.integers(0, 9, (6, 4)).astype(float)
        table[:, 3] = [1, 0, 0, 2, 1, 2]
        for array in table, table.astype("<f4"), table.astype(">i2"), table.astype("u1"), np.asfortranarray(table), np.asfortranarray(table.astype(">f4")):
            self.npy("a.npy", array)
            inputs, targets, info = self.read("table", "a.npy")
            np.testing.assert_array_equal(inputs.reshape(6, 3), table[:, :3].astype(np.float32))
            self.assertEqual((info["classes"], targets.ravel().tolist()), (["0", "1", "2"], table[:, 3].tolist()))
        inputs, targets, info = self.read("table", "a.npy", label=1, regression=1)
        np.testing.assert_array_equal(inputs.reshape(6, 3), table[:, 1:].astype(np.float32))
        np.testing.assert_array_equal(targets.ravel(), table[:, 0])

    def test_npy_pairs_and_shapes(self):
        images, labels = rng.standard_normal((5, 2, 3, 4)).astype("f4"), np.array([3, 1, 3, 2, 1])
        self.npy("x.npy", images)
        self.npy("y.npy", labels)
        inputs, targets, info = self.read("table", "x.npy", targets="y.npy")
        np.testing.assert_array_equal(inputs, images)
        self.assertEqual((info["classes"], targets.ravel().tolist()), (["1", "2", "3"], [2, 0, 2, 1, 0]))
        self.npy("x.npy", np.asfortranarray(images[:, 0]))
        self.npy("y.npy", np.asfortranarray(images))
        inputs, targets, info = self.read("table", "x.npy", targets="y.npy")
        np.testing.assert_array_equal(inputs[:, 0], images[:, 0])
        np.testing.assert_array_equal(targets, images.reshape(5, -1))
        self.assertEqual((info["shape"], info["target"]), ([1, 3, 4], [2, 3, 4]))
        self.npy("y.npy", np.eye(3)[[0, 2, 1, 1, 0]])
        self.assertEqual(self.read("table", "x.npy", targets="y.npy")[1].ravel().tolist(), [0, 2, 1, 1, 0])

    def test_idx(self):
        def idx(name, array, code):
            (self.folder / name).write_bytes(bytes((0, 0, code, array.ndim)) + np.array(array.shape, ">u4").tobytes() + array.tobytes())

        labels = np.array([3, 1, 3, 2, 1], "u1")
        idx("labels-idx1-ubyte", labels, 8)
        for kind, code in ((">u1", 8), (">i1", 9), (">i2", 11), (">i4", 12), (">f4", 13), (">f8", 14)):
            images = rng.integers(0 if code == 8 else -100, 100, (5, 3, 4)).astype(kind)
            idx("images-idx3-ubyte", images, code)
            inputs, targets, info = self.read("table", "images-idx3-ubyte", targets="labels-idx1-ubyte")
            np.testing.assert_array_equal(inputs[:, 0], images)
            self.assertEqual((info["classes"], targets.ravel().tolist()), (["1", "2", "3"], [2, 0, 2, 1, 0]))
        packed = self.folder / "images-idx3-ubyte.gz"
        packed.write_bytes(gzip.compress((self.folder / "images-idx3-ubyte").read_bytes()))
        np.testing.assert_array_equal(self.read("table", packed.name, targets="labels-idx1-ubyte")[0][:, 0], images)
        self.fails("name the file of its targets, too", "table", "images-idx3-ubyte")
        whole = (self.folder / "images-idx3-ubyte").read_bytes()
        for content, says in ((whole[:-1], "ends too early"), (whole + b"x", "more bytes than its header promises"), (whole[:10], "ends too early"),
                              (b"\0\0\x08\x04" + b"\xff" * 16, "more elements than memory can have"), (b"\0\0\x08\x02" + bytes(8), "has no cases")):
            self.write("bad-idx3-ubyte", content)
            self.fails(says, "table", "bad-idx3-ubyte", targets="labels-idx1-ubyte")

    def test_npy_of_texts(self):
        x, labels = rng.standard_normal((5, 2)), np.array(["kätzchen", "Hund", "", "Hund", "😀"])
        self.npy("x.npy", x)
        for array in (labels, labels.reshape(5, 1), labels.astype(">U12"), np.char.encode(labels, "utf-8")):
            self.npy("y.npy", array)
            inputs, targets, info = self.read("table", "x.npy", targets="y.npy", missing="drop")
            self.assertEqual(([info["classes"][int(t)] for t in targets.ravel()], info["rows"]), (["kätzchen", "Hund", "Hund", "😀"], [0, 1, 3, 4]))
            np.testing.assert_array_equal(inputs.reshape(4, 2), x[[0, 1, 3, 4]].astype("f4"))
        self.fails("y.npy: row 3, column 1 is missing: missing=drop leaves", "table", "x.npy", targets="y.npy")
        self.npy("t.npy", np.array([["5.1", "a"], ["nan", "b"], ["7", "a"]]))  # as np.array() makes of rows with names
        inputs, targets, info = self.read("table", "t.npy", missing="mean")
        self.assertEqual((inputs.ravel().tolist(), info["classes"], targets.ravel().tolist()), ([np.float32(5.1), np.float32(6.05), 7], ["a", "b"], [0, 1, 0]))
        self.npy("t.npy", np.array([["5.1", "1.5"], ["2", "2.5"]]))
        self.assertEqual(self.read("table", "t.npy", regression=1)[1].ravel().tolist(), [1.5, 2.5])
        self.npy("t.npy", np.array([["x", "a"], ["2", "b"]]))
        self.fails("t.npy: row 1, column 1 is \"x\", which is no finite number", "table", "t.npy")
        self.npy("y.npy", np.array([True, False, True, False, True]))
        self.assertEqual(self.read("table", "x.npy", targets="y.npy")[2]["classes"], ["0", "1"])
        self.npy("y.npy", np.array([2 ** 53, 2 ** 53 + 2, 1, 2, 3]))
        self.fails("is beyond 2^53", "table", "x.npy", targets="y.npy")
        for array, says in ((np.array([(1.0, 2)] * 5, dtype=[("a", "f4"), ("b", "i4")]), "holds records"), (np.array(["a", None, 1, 2, 3], object), "holds objects of Python"),
                            (np.array(["2020-01-01"] * 5, "M8[D]"), "type '<M8[D]'"), (np.zeros(5, complex), "type '<c16'")):
            self.npy("y.npy", array)
            self.fails(says, "table", "x.npy", targets="y.npy")
        self.npy("x.npy", np.zeros((5, 8, 8, 3)))
        self.npy("y.npy", np.arange(5) % 2)
        self.assertIn("is taken for 8 channels of 8 x 3: if its last axis has the channels", self.dump("table", "x.npy", targets="y.npy").stderr)

    def test_labels_beyond_what_float64_holds(self):
        self.write("a.csv", f"1,{2 ** 53}\n2,{2 ** 53 + 1}\n3,{2 ** 53}\n")
        self.assertEqual(self.read("table", "a.csv")[2]["classes"], [str(2 ** 53), str(2 ** 53 + 1)])

    def test_npz(self):
        x, y = rng.standard_normal((6, 3)).astype("f4"), np.array([1, 0, 0, 2, 1, 2])
        other = x[:2] + 1
        for inputs, targets in (("X", "y"), ("x_train", "y_train"), ("data", "target"), ("train_images", "train_labels"), ("features", "labels"), ("Xtrain", "ytrain")):
            for save in np.savez, np.savez_compressed:
                save(self.folder / "a.npz", **{targets: y, inputs: x, "x_test": other, "y_test": y[:2], "names": np.array(["a", "b"])})
                found = self.read("table", "a.npz")
                np.testing.assert_array_equal(found[0].reshape(6, 3), x)
                self.assertEqual(found[1].ravel().tolist(), y.tolist())
                self.assertIn(f"a.npz: {inputs} is taken for the inputs, and {targets} for the targets; not used: x_test, y_test, names (FILE.npz:NAME", self.dump("table", "a.npz").stderr)
                np.testing.assert_array_equal(self.read("table", "a.npz:x_test")[0].reshape(2, 3), other)
                self.assertEqual(self.read("table", "a.npz:x_test.npy", unlabelled=1)[2]["outputs"], 0)
                self.assertEqual(self.read("table", f"a.npz:{inputs}", targets=f"a.npz:{targets}")[1].ravel().tolist(), y.tolist())
        np.savez(self.folder / "a.npz", x, y)
        self.assertEqual(self.read("table", "a.npz")[1].ravel().tolist(), y.tolist())
        np.savez(self.folder / "a.npz", table=np.column_stack([x, y]))
        self.assertEqual(self.read("table", "a.npz")[1].ravel().tolist(), y.tolist())
        np.savez(self.folder / "a.npz", **{"one": x, "two": y})
        self.fails("a.npz: has 2 arrays: say which, as 'a.npz:NAME'; there are one, two", "table", "a.npz")
        self.fails("a.npz:on: has no array called 'on'", "table", "a.npz:on")
        np.savez(self.folder / "a.npz", X=x, y=y[:4])
        self.fails("a.npz:y: has the targets of 4 cases, and a.npz:X has 6", "table", "a.npz")
        content = (self.folder / "a.npz").read_bytes()
        self.write("cut.npz", content[:len(content) - 30])
        self.fails("cut.npz: ", "table", "cut.npz")
        self.write("bad.npz", content.replace(x.tobytes()[:8], bytes(8)))
        self.fails("checksum is wrong", "table", "bad.npz")
        np.savez(self.folder / "sparse.npz", data=x[0], indices=y[:3], indptr=y[:2], shape=y[:2], format=b"csr")
        self.fails("sparse.npz: is a sparse matrix of SciPy: write it by", "table", "sparse.npz")
        self.write("a.csv", "x,c\n1,a\n2,b\n")
        self.fails("a.csv:X: the file is no archive", "table", "a.csv:X", unlabelled=1)

    def test_tables_of_other_programs_are_named(self):
        with zipfile.ZipFile(self.folder / "a.xlsx", "w") as file:
            file.writestr("xl/workbook.xml", "<workbook/>")
        for name, content, says in (("a.xlsx", None, "is a workbook of Excel: save the sheet as CSV"), ("u.txt", "x\ty\n1\t2\n".encode("utf-16"), "is UTF-16"),
                                    ("u.txt", "x\ty\n1\t2\n".encode("utf-16-be"), "has a byte 0: this is no text"), ("a.parquet", b"PAR1xxxx", "is a table of Parquet: write it by DataFrame.to_csv()"),
                                    ("a.h5", b"\x89HDF\r\n\x1a\n", "is a file of HDF5"), ("a.pkl", b"\x80\x04\x95", "is a pickle of Python"),
                                    ("a.arff", b"@RELATION iris\n@DATA\n1,2\n", "is ARFF: leave out all lines up to @data"), ("a.json", b'{"x": [1, 2]}', "is JSON")):
            if content is not None:
                self.write(name, content)
            self.fails(f"{name}: {says}" if "byte" not in says else says, "table", name)

    def test_npy_errors(self):
        array = np.arange(12.0).reshape(4, 3)
        array[2, 1] = np.nan
        self.npy("a.npy", array)
        self.fails("a.npy: row 3, column 2 is missing: missing=mean", "table", "a.npy")
        self.assertEqual(self.read("table", "a.npy", missing="mean")[0][2].ravel().tolist(), [6, 5])
        array[2, 1] = np.inf
        self.npy("a.npy", array)
        self.fails("a.npy: row 3, column 2 is infinite", "table", "a.npy", missing="mean")
        self.npy("a.npy", np.arange(4.0))
        self.fails("a.npy: has 1 dimension: a table has two", "table", "a.npy")
        self.npy("a.npy", np.zeros((2, 3, 4)))
        self.fails("name the file of its targets", "table", "a.npy")
        self.npy("a.npy", np.zeros((0, 3)))
        self.fails("a.npy: has no cases", "table", "a.npy")
        content = (self.folder / "a.npy").read_bytes()
        self.write("a.npy", content.replace(b"(0, 3)", b"(9, 3)"))
        self.fails("a.npy: the file ends too early", "table", "a.npy")


class Windows(DataTest):
    def test_windows(self):
        signal = rng.standard_normal(1000).astype("<f4")
        np.save(self.folder / "s.npy", signal)
        self.write("s.f32le", signal.tobytes())
        self.write("s.raw", np.rint(signal * 9000).astype("<i2").tobytes())
        starts = range(0, 1000 - 50 + 1, 20)
        np.save(self.folder / "t.npy", np.arange(len(starts)) % 2)
        expected = np.stack([signal[i:i + 50] for i in starts])
        for name, options in [("s.npy", {}), ("s.f32le", {}), ("s.f32le", {"syntax": "f32le"})]:
            inputs, targets, info = self.read("windows", name, window=50, hop=20, targets="t.npy", **options)
            np.testing.assert_array_equal(inputs[:, 0, 0], expected)
            self.assertEqual(targets.ravel().tolist(), [i % 2 for i in range(len(starts))])
        inputs, _, _ = self.read("windows", "s.raw", window=50, hop=20, targets="t.npy", syntax="s16le")
        np.testing.assert_array_equal(inputs[:, 0, 0], np.rint(expected * 9000).astype("f4") / np.float32(32768))
        inputs, _, _ = self.read("windows", "s.raw", window=5, syntax="u8", unlabelled=1)
        np.testing.assert_array_equal(inputs.ravel(), np.frombuffer((self.folder / "s.raw").read_bytes(), "u1").astype("f4") / np.float32(255))

    def test_a_target_for_each_sample(self):
        np.save(self.folder / "s.npy", np.arange(100.0))
        np.save(self.folder / "t.npy", np.arange(100) // 50)
        _, targets, _ = self.read("windows", "s.npy", window=10, hop=5, targets="t.npy")
        self.assertEqual(targets.ravel().tolist(), [(i + 5) // 50 for i in range(0, 91, 5)])

    def test_channels(self):
        signal = rng.standard_normal((40, 3)).astype("f4")
        np.save(self.folder / "s.npy", signal)
        self.write("s.raw", signal.tobytes())
        expected = np.stack([signal[i:i + 8].T for i in range(0, 33, 8)])
        for name, options in [("s.npy", {}), ("s.raw", {"syntax": "f32le:3"})]:
            np.testing.assert_array_equal(self.read("windows", name, window=8, unlabelled=1, **options)[0][:, :, 0], expected)

    def test_errors(self):
        np.save(self.folder / "s.npy", np.arange(10.0))
        self.write("s.raw", b"1234567")
        self.fails("has 10 samples, and a window 11", "windows", "s.npy", window=11, unlabelled=1)
        self.fails("have no targets of their own", "windows", "s.npy", window=2)
        self.fails("say in syntax", "windows", "s.raw", window=2, unlabelled=1)
        self.fails("no whole number of samples f32le", "windows", "s.raw", window=1, syntax="f32le", unlabelled=1)
        self.fails("samples cannot be read as 'f64'", "windows", "s.raw", window=1, syntax="f64", unlabelled=1)
        np.save(self.folder / "t.npy", np.arange(7))
        self.fails("t.npy: has 7 targets; there must be one for each of the 5 windows of s.npy, or for each of its 10 samples", "windows", "s.npy", window=2, targets="t.npy")
        np.save(self.folder / "s.npy", np.array([1, np.nan]))
        self.fails("s.npy: sample 2 is NaN", "windows", "s.npy", window=1, unlabelled=1)


def turned(patch):
    """The eight ways to lay a square."""
    return [np.rot90(p, k) for p in (patch, patch[:, ::-1]) for k in range(4)]


class Images(DataTest):
    def test_classes(self):
        photos = {name: self.photo(name, 9, 7, seed, channels) for seed, (name, channels) in
                  enumerate([("d/cat/1.png", 3), ("d/cat/2.png", 3), ("d/ant/x.png", 3), ("d/dog/y.png", 3)])}
        inputs, targets, info = self.read("classes", "d")
        self.assertEqual((info["classes"], targets.ravel().tolist(), info["shape"]), (["ant", "cat", "dog"], [0, 1, 1, 2], [3, 7, 9]))
        expected = np.stack([photos[f"d/{name}"].transpose(2, 0, 1) for name in ("ant/x.png", "cat/1.png", "cat/2.png", "dog/y.png")])
        np.testing.assert_array_equal(inputs, expected.astype("f4") / np.float32(255))
        inputs, _, info = self.read("classes", "d", gray=1)
        grey = (expected * np.array([299, 587, 114]).reshape(1, 3, 1, 1)).sum(1) / 255000
        np.testing.assert_allclose(inputs[:, 0], grey, atol=1e-7)
        self.photo("d/dog/z.png", 9, 7, 9, 1)
        inputs, _, info = self.read("classes", "d")
        self.assertEqual(info["shape"], [3, 7, 9])
        np.testing.assert_array_equal(inputs[4, 0], inputs[4, 2])

    def test_patches(self):
        photo = self.photo("d/a/1.png", 30, 20, 1, 1)
        self.photo("d/b/1.png", 25, 40, 2, 1)
        where = set()
        for epoch in range(4):
            inputs, _, _ = self.read("classes", "d", patch=8, epoch=epoch, seed=3)
            levels = np.rint(inputs[0, 0] * 255).astype(int)
            places = [(y, x) for y in range(13) for x in range(23) if (photo[y:y + 8, x:x + 8] == levels).all()]
            self.assertEqual(len(places), 1)
            where.add(places[0])
            np.testing.assert_array_equal(self.read("classes", "d", patch=8, epoch=epoch, seed=3)[0], inputs)
        self.assertGreater(len(where), 2)
        ways = set()
        for epoch in range(12):
            inputs, _, _ = self.read("classes", "d", patch=20, epoch=epoch, augment=1)
            levels = np.rint(inputs[0, 0] * 255).astype(int)
            found = [(x, k) for x in range(11) for k, p in enumerate(turned(photo[:20, x:x + 20])) if (p == levels).all()]
            self.assertEqual(len(found), 1)
            ways.add(found[0][1])
        self.assertGreater(len(ways), 3)

    def test_pairs(self):
        before, after = self.photo("b/x.png", 32, 24, 1), self.photo("a/x.png", 32, 24, 2)
        self.photo("b/y.png", 16, 16, 3), self.photo("a/y.png", 16, 16, 4)
        inputs, targets, info = self.read("pairs", "b", targets="a", patch=8, augment=1)
        self.assertEqual((info["cases"], info["shape"], info["target"]), (12 + 4, [3, 8, 8], [3, 8, 8]))
        for case in range(12):
            levels = np.rint(inputs[case] * 255).astype(int).transpose(1, 2, 0)
            wanted = np.rint(targets[case].reshape(3, 8, 8) * 255).astype(int).transpose(1, 2, 0)
            found = [(y, x, k) for y in range(17) for x in range(25) for k, p in enumerate(turned(before[y:y + 8, x:x + 8])) if (p == levels).all()]
            self.assertEqual(len(found), 1)
            y, x, k = found[0]
            np.testing.assert_array_equal(turned(after[y:y + 8, x:x + 8])[k], wanted)
        inputs, targets, info = self.read("pairs", "b/x.png", targets="a/x.png")
        np.testing.assert_array_equal(inputs[0], before.transpose(2, 0, 1).astype("f4") / np.float32(255))
        self.assertEqual(info["cases"], 1)

    def test_pairs_by_name_then_by_stem(self):
        before = {name: self.photo(f"b/{name}", 6, 5, i) for i, name in enumerate(("s.png", "s.tif", "s-1.ppm"))}
        after = {name: self.photo(f"a/{name}", 6, 5, i + 9) for i, name in enumerate(("s.bmp.png", "s.png", "s.pnm", "s-1.png"))}
        self.fails("a/s.bmp.png: there is no image of this name in b", "pairs", "b", targets="a")
        (self.folder / "a/s.bmp.png").unlink()
        inputs, targets, _ = self.read("pairs", "b", targets="a")
        order = ("s.png", "s.png"), ("s.tif", "s.pnm"), ("s-1.ppm", "s-1.png")  # by stem
        for case, names in enumerate(order):
            for read, photos, name in zip((inputs, targets), (before, after), names):
                np.testing.assert_array_equal(np.rint(read[case].reshape(3, 5, 6) * 255).transpose(1, 2, 0), photos[name])

    def test_parts_keep_patches_of_a_picture_together(self):
        for i in range(10):
            Image.fromarray(np.full((16, 16), i, np.uint8)).save(self.write(f"b/{i}.png", ""))
            Image.fromarray(np.full((16, 16), i, np.uint8)).save(self.write(f"a/{i}.png", ""))
        inputs, _, info = self.read("pairs", "b", targets="a", patch=8, split=0.3)
        self.assertEqual(info["cases"], 12)
        self.assertEqual(len(np.unique(inputs)), 3)

    def test_errors(self):
        self.photo("d/a/1.png"), self.photo("d/b/1.png", 8, 8)
        self.fails(["d/a/1.png has 17 x 13 pixels, and d/b/1.png 8 x 8", "patch=N"], "classes", "d")
        self.fails("d/b/1.png: has 8 x 8 pixels, less than the patches of 9 x 9", "classes", "d", patch=9)
        (self.folder / "d/c").mkdir()
        self.fails("d/c: the class \"c\" has no images", "classes", "d", patch=4)
        self.fails("d/a: has no folders in it", "classes", "d/a")
        self.fails("class \"b\" is none of the classes", "classes", "d", class_=["a", "c"])
        self.photo("e/a/1.png")
        self.fails("all images are of the class \"a\"", "classes", "e")
        self.photo("p/x.png"), self.photo("q/x.png", 8, 8)
        self.fails("p/x.png has 17 x 13 pixels, and q/x.png 8 x 8: the images of a pair", "pairs", "p", targets="q")
        self.photo("q/y.png")
        self.fails("q/y.png: there is no image of this name in p", "pairs", "p", targets="q")
        self.fails("name what is wanted of these images", "pairs", "p")


class Parts(DataTest):
    def test_each_class_gives_its_share(self):
        labels = ["a"] * 50 + ["b"] * 30 + ["c"] * 20
        self.write("a.csv", "".join(f"{i},{label}\n" for i, label in enumerate(labels)))
        inputs, targets, info = self.read("table", "a.csv", split=0.2)
        self.assertEqual(np.bincount(targets.ravel().astype(int)).tolist(), [10, 6, 4])
        numbers = inputs.ravel().astype(int)
        self.assertEqual([labels[i] for i in numbers], [info["classes"][int(t)] for t in targets.ravel()])
        self.assertEqual(len(set(numbers)), 20)
        self.assertEqual(self.read("table", "a.csv", split=0.2)[0].tolist(), inputs.tolist())
        self.assertNotEqual(self.read("table", "a.csv", split=0.2, seed=1)[0].tolist(), inputs.tolist())
        self.fails("leave no case for one of the two parts", "table", "a.csv", split=0.001)


if __name__ == "__main__":
    unittest.main()
