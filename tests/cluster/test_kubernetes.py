# SPDX-License-Identifier: MIT
"""docs/cluster/kubernetes.yaml is a job as Kubernetes knows it, and its command, run for each index, does all."""
import unittest

from cluster_helper import FILTER, OPTIONS, SOURCE, ClusterTest

try:
    import yaml
except ImportError:
    yaml = None
try:
    import kubernetes
except ImportError:
    kubernetes = None


@unittest.skipIf(yaml is None, "PyYAML is not installed (python3-yaml)")
class Kubernetes(ClusterTest):
    def setUp(self):
        super().setUp()
        self.text = (SOURCE / "docs" / "cluster" / "kubernetes.yaml").read_text()
        [self.job] = yaml.safe_load_all(self.text)
        self.spec = self.job["spec"]
        [self.container] = self.spec["template"]["spec"]["containers"]

    def test_schema(self):
        """Every field is known to the models of Kubernetes' own client, and has the type that they demand."""
        if kubernetes is None:
            self.skipTest("the client of Kubernetes is not installed (python3-kubernetes)")

        def check(value, kind, path):
            if kind.startswith("list["):
                self.assertIsInstance(value, list, path)
                for i, item in enumerate(value):
                    check(item, kind[5:-1], f"{path}[{i}]")
            elif kind.startswith("dict("):
                self.assertIsInstance(value, dict, path)
                for name, item in value.items():
                    check(item, kind[5:-1].split(", ", 1)[1], f"{path}.{name}")
            elif kind in ("str", "int", "bool", "object"):
                self.assertIsInstance(value, {"str": str, "int": int, "bool": bool, "object": object}[kind], path)
            else:
                model = getattr(kubernetes.client, kind)
                fields = {model.attribute_map[name]: (name, kind) for name, kind in model.openapi_types.items()}
                self.assertLessEqual(set(value), set(fields), path)
                for name, item in value.items():
                    check(item, fields[name][1], f"{path}.{name}")
                with self.subTest(path):  # demands the fields that a model cannot be without
                    model(**{fields[name][0]: item for name, item in value.items()})

        self.assertEqual((self.job["apiVersion"], self.job["kind"]), ("batch/v1", "Job"))
        check(self.job, "V1Job", "job")
        self.job["spec"]["completion"] = 8
        with self.assertRaises(AssertionError):
            check(self.job, "V1Job", "job")

    def test_numbers_fit(self):
        command, resources = self.container["command"], self.container["resources"]["limits"]
        self.assertEqual(self.spec["completionMode"], "Indexed")
        self.assertEqual(command[command.index("--shard") + 1], f"auto/{self.spec['completions']}")
        self.assertEqual(command[command.index("--threads") + 1], resources["cpu"])
        memory, limit = command[command.index("--memory") + 1], resources["memory"]
        self.assertLessEqual(int(memory.removesuffix("M")) * 2**20 * 1.2, int(limit.removesuffix("Gi")) * 2**30)
        mounts = {mount["name"]: mount["mountPath"] for mount in self.container["volumeMounts"]}
        self.assertEqual(set(mounts), {volume["name"] for volume in self.spec["template"]["spec"]["volumes"]})
        for path in mounts.values():
            self.assertTrue(any(word.startswith(path) for word in command))

    def test_command_of_each_index(self):
        self.prepare(24)
        (self.folder / "results").mkdir()
        places = {"/photos": f"{self.folder}/photos", "/results/": f"{self.folder}/results/", "unsharp": FILTER}
        command = [places.get(word, word) for word in self.container["command"]] + OPTIONS
        for index in [*range(self.spec["completions"]), 3]:  # a pod may be run again
            told = self.run_file(*command, extra={"JOB_COMPLETION_INDEX": str(index)})
        self.assertRegex(told, "results? (was|were) done")
        self.check_results(self.spec["completions"])


if __name__ == "__main__":
    unittest.main()
