# SPDX-License-Identifier: MIT
"""The estimators of gconv.sklearn, held to scikit-learn's own checks and machines."""
import pickle
import unittest
import warnings

from helper import SKIPPED, gconv, np

try:
    from gconv import sklearn as estimators
    import sklearn.svm
    from sklearn.datasets import load_diabetes, load_iris
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.utils.estimator_checks import estimator_checks_generator
except ImportError:
    print("skipped: scikit-learn 1.6 or later is not installed")
    raise SystemExit(SKIPPED)


class Estimators(unittest.TestCase):
    def test_scikit_learns_own_checks(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for estimator in (estimators.SVC(), estimators.SVR(), estimators.MLPClassifier(), estimators.MLPRegressor()):
                for one, check in estimator_checks_generator(estimator):
                    if "sample_weight_equivalence" in str(check):  # asks for 1e-7, which scikit-learn's machines miss, too
                        continue
                    with self.subTest(estimator=estimator, check=check):
                        try:
                            check(one)
                        except unittest.SkipTest:
                            pass

    def test_machines_agree_with_scikit_learn(self):
        rows, numbers = load_iris(return_X_y=True)
        rows = StandardScaler().fit_transform(rows)
        for labels in (numbers, numbers - 1.0, np.array(["setosa", "b c", "virginica"])[numbers], numbers > 0):
            for options in ({}, {"kernel": "linear"}, {"kernel": "poly", "coef0": 1.0}, {"gamma": "auto", "C": 10.0},
                            {"class_weight": "balanced"}, {"decision_function_shape": "ovo"}):
                with self.subTest(labels=labels.dtype, **options):
                    theirs, ours = sklearn.svm.SVC(**options).fit(rows, labels), estimators.SVC(**options).fit(rows, labels)
                    self.assertEqual(ours.predict(rows).dtype, labels.dtype)
                    np.testing.assert_array_equal(ours.predict(rows), theirs.predict(rows))
                    np.testing.assert_allclose(ours.decision_function(rows), theirs.decision_function(rows), atol=0.01)
        rows, numbers = load_diabetes(return_X_y=True)
        for options in ({"C": 100.0}, {"kernel": "linear", "C": 100.0}, {"epsilon": 0.0}):
            theirs, ours = sklearn.svm.SVR(**options).fit(rows, numbers), estimators.SVR(**options).fit(rows, numbers)
            np.testing.assert_allclose(ours.predict(rows), theirs.predict(rows), atol=0.01)

    def test_weights_and_parts_of_machines(self):
        random = np.random.default_rng(5)
        rows, labels = random.normal(size=(90, 3)), random.integers(0, 3, 90)
        weights, times = random.random(90) * 4, random.integers(0, 4, 90)
        pairs = [(sklearn.svm.SVC, estimators.SVC, labels), (sklearn.svm.SVC, estimators.SVC, rows[:, 0] + 0.7 * random.normal(size=90) > 0.2),
                 (sklearn.svm.SVR, estimators.SVR, rows[:, 0] + 0.3 * labels)]
        for theirs, ours, targets in pairs:
            for kernel in ("linear", "rbf"):
                a, b = (one(kernel=kernel, tol=1e-6).fit(rows, targets, sample_weight=weights) for one in (theirs, ours))
                for name in ("support_", "n_support_", "support_vectors_"):
                    np.testing.assert_array_equal(getattr(b, name), getattr(a, name))
                for name in ("dual_coef_", "intercept_", *(["coef_"] if kernel == "linear" else [])):
                    self.assertEqual(getattr(b, name).shape, getattr(a, name).shape)
                    np.testing.assert_allclose(getattr(b, name), getattr(a, name), atol=2e-3, err_msg=f"{ours} {kernel} {name}")
                self.assertEqual(hasattr(b, "coef_"), kernel == "linear")
                np.testing.assert_array_equal(pickle.loads(pickle.dumps(b)).dual_coef_, b.dual_coef_)
            judge = "predict" if ours is estimators.SVR else "decision_function"
            weighed = ours(gamma=0.5, tol=1e-7).fit(rows, targets, sample_weight=times)  # cases of weight 0 are left out
            repeated = ours(gamma=0.5, tol=1e-7).fit(np.repeat(rows, times, axis=0), np.repeat(targets, times, axis=0))
            np.testing.assert_allclose(getattr(weighed, judge)(rows), getattr(repeated, judge)(rows), atol=1e-4)
        for given in (np.full(90, -1.0), np.where(labels == 0, 1.0, 0.0), np.where(labels == 0, 0.0, 1.0), np.ones(89), np.full(90, np.nan)):
            with self.assertRaises(ValueError):
                estimators.SVC().fit(rows, labels, sample_weight=given)
        for given in (np.zeros(90), np.ones(89), np.full(90, np.nan)):
            with self.assertRaisesRegex(gconv.ArgumentError, "weight"):
                gconv.SVM.train(rows, labels, case_weights=given)

    def test_precomputed_kernels_and_functions(self):
        random = np.random.default_rng(6)
        rows, weights = random.normal(size=(260, 3)), random.integers(0, 3, 260)
        labels = (rows[:, 0] + 0.5 * random.normal(size=260) > 0) + (rows[:, 1] > 0.5)
        near = lambda a, b: np.exp(-((a[:, None] - b) ** 2).sum(2))  # noqa: E731
        square, options = near(rows, rows), {"decision_function_shape": "ovo", "tol": 1e-5}
        for given in (None, weights):
            rbf = estimators.SVC(gamma=1.0, **options).fit(rows, labels, given)
            for kernel, cases in (("precomputed", square), (near, rows)):
                found = estimators.SVC(kernel=kernel, **options).fit(cases, labels, given)
                np.testing.assert_array_equal(found.support_, rbf.support_)
                np.testing.assert_allclose(found.decision_function(cases), rbf.decision_function(rows), atol=1e-4)
        theirs = sklearn.svm.SVR(kernel="precomputed", tol=1e-5).fit(square, rows[:, 0])
        ours = estimators.SVR(kernel="precomputed", tol=1e-5).fit(square, rows[:, 0])
        np.testing.assert_allclose(ours.predict(square), theirs.predict(square), atol=1e-4)
        search = GridSearchCV(estimators.SVC(kernel="precomputed"), {"C": [1, 10]}).fit(square, labels)
        self.assertGreater(search.best_score_, 0.8)  # it cuts rows and columns
        for wrong in (square[:, 1:], np.where(np.eye(260) == 1, np.nan, square)):
            with self.assertRaises(ValueError):
                estimators.SVC(kernel="precomputed").fit(wrong, labels)
        with self.assertRaisesRegex(gconv.ArgumentError, "a column for each case"):
            gconv.SVM.train(square[:, 1:], labels, kernel="precomputed")
        with self.assertRaisesRegex(gconv.ArgumentError, "no columns to scale"):
            gconv.SVM.train(square, labels, kernel="precomputed", scaling="unit")
        with self.assertRaisesRegex(ValueError, "inconsistent"):
            estimators.SVC(kernel=lambda a, b: np.eye(3)).fit(rows, labels)

    def test_steps_and_their_limit(self):
        rows, labels = load_iris(return_X_y=True)
        for most in (1, 7):
            with self.assertWarnsRegex(sklearn.exceptions.ConvergenceWarning, f"max_iter={most}"):
                found = estimators.SVC(C=100.0, max_iter=most).fit(rows, labels)
            self.assertEqual(found.n_iter_.tolist()[1:], [min(most, n) for n in estimators.SVC(C=100.0).fit(rows, labels).n_iter_][1:])
        self.assertIsInstance(estimators.SVR().fit(rows, labels).n_iter_, int)
        for most in (0, -2):
            with self.assertRaisesRegex(ValueError, "max_iter"):
                estimators.SVC(max_iter=most).fit(rows, labels)

    def test_probabilities_searches_and_pickles(self):
        rows, numbers = load_iris(return_X_y=True)
        names = np.array(["c", "a", "b"])[numbers]
        machine = estimators.SVC(probability=True, random_state=0).fit(rows, names)
        self.assertEqual(list(machine.classes_), ["a", "b", "c"])
        likely = machine.predict_proba(rows)
        self.assertGreater(np.mean(machine.classes_[likely.argmax(axis=1)] == names), 0.95)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(machine)).predict_proba(rows), likely)
        cases = np.random.default_rng(1).normal(size=(90, 3))
        for labels in ((cases[:, 0] > 0).astype(int) + (cases[:, 1] > 0.5), cases[:, 0] > 0.3 * cases[:, 1] ** 2):  # probabilities change no label
            sure, plain = (estimators.SVC(probability=given).fit(cases, labels).predict(cases) for given in (True, False))
            np.testing.assert_array_equal(sure, plain)
        self.assertFalse(hasattr(estimators.SVC(), "predict_proba"))
        late = estimators.SVC(break_ties=True).fit(rows, names)
        np.testing.assert_array_equal(late.predict(rows), late.classes_[late.decision_function(rows).argmax(axis=1)])
        late.probability = True
        with self.assertRaises(sklearn.exceptions.NotFittedError):
            late.predict_proba(rows)
        with self.assertRaises(ValueError):
            late.set_params(decision_function_shape="ovo").predict(rows)
        self.assertGreater(cross_val_score(make_pipeline(StandardScaler(), estimators.SVC()), rows, names).mean(), 0.9)
        one, two = (GridSearchCV(estimators.SVC(), {"C": [1, 10]}, n_jobs=jobs).fit(rows, names) for jobs in (None, 2))
        self.assertGreater(one.best_score_, 0.9)
        np.testing.assert_array_equal(two.cv_results_["mean_test_score"], one.cv_results_["mean_test_score"])  # by processes
        net = estimators.MLPClassifier((20,), batch_size=16, max_iter=30, learning_rate_init=0.01, random_state=1)
        self.assertGreater(cross_val_score(net, rows, names).mean(), 0.9)

    def test_what_is_wrong(self):
        rows, numbers = load_iris(return_X_y=True)
        for options in ({"kernel": "precomputed"}, {"gamma": 0.0}, {"gamma": None}, {"gamma": "wide"}, {"C": 0.0}, {"decision_function_shape": "all"}):
            with self.assertRaises(ValueError):
                estimators.SVC(**options).fit(rows, numbers)
        for machine, name, values in ((estimators.SVC, "break_ties", ("no", 2)), (estimators.SVC, "coef0", (np.nan, "a")), (estimators.SVR, "epsilon", (None, -1)),
                                      (estimators.MLPClassifier, "early_stopping", ("no",)), (estimators.MLPClassifier, "max_iter", (0, 1.5)),
                                      (estimators.MLPClassifier, "batch_size", (0,)), (estimators.MLPRegressor, "learning_rate_init", (0, np.nan)),
                                      (estimators.MLPRegressor, "n_iter_no_change", (0, "a")), (estimators.MLPRegressor, "momentum", (None,))):
            for value in values:
                with self.subTest(machine.__name__, name=name, value=value), self.assertRaisesRegex(ValueError, {"epsilon": "epsilon|tube"}.get(name, name)):
                    machine(**{"kernel": "sigmoid"} if name == "coef0" else {}, **{name: value}).fit(rows, numbers)
        with self.assertRaisesRegex(ValueError, "degree"):
            estimators.SVC(kernel="poly", degree=0).fit(rows, numbers)
        for options in ({"activation": "gelu"}, {"solver": "lbfgs"}):
            with self.assertRaisesRegex(ValueError, "there are"):
                estimators.MLPClassifier(**options).fit(rows, numbers)

    def test_pixels(self):
        random = np.random.default_rng(4)
        image = np.zeros((40, 40, 3), np.uint8)
        image[:, 20:] = 200
        image += random.integers(0, 20, image.shape).astype(np.uint8)
        mask = np.zeros((40, 40), np.uint8)
        mask[5:35, 3:17], mask[5:35, 23:37] = 1, 5
        for options in ({}, {"network": "dense 8 relu, dense 2 softmax", "max_iter": 30}):
            model = estimators.PixelClassifier("gaussian 1", **options).fit([image, image[::-1]], [mask, mask[::-1]])
            self.assertEqual(list(model.classes_), [1, 5])
            self.assertGreater(model.score(image, mask), 0.99)
            self.assertEqual(model.predict(image).shape, (40, 40))
            self.assertEqual(len(model.predict([image, image])), 2)
        for given in (mask.astype(int), mask[..., None].astype(np.int32)):
            model = estimators.PixelClassifier("gaussian 1", random_state=None).fit(image, given)
            self.assertEqual((list(model.classes_), model.score(image, given)), ([1, 5], 1.0))
        for given in (-mask.astype(int), mask.astype(int) * 70000):
            with self.assertRaisesRegex(gconv.ArgumentError, "from 0, which is unlabelled, to 65535"):
                estimators.PixelClassifier("gaussian 1").fit(image, given)
        with self.assertRaisesRegex(gconv.ArgumentError, "class_weight='balanced'"):
            estimators.PixelClassifier("gaussian 1", class_weight="balanced").fit(image, mask)
        with self.assertRaisesRegex(gconv.ArgumentError, "label no pixel"):
            model.score(image, mask * 0)
        with self.assertRaisesRegex(gconv.ArgumentError, "a mask for each image"):
            estimators.PixelClassifier().fit([image], [])


if __name__ == "__main__":
    unittest.main()
