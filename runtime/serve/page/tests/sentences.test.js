// What the page says, in both languages.
import assert from "node:assert/strict";
import test, { afterEach, beforeEach } from "node:test";

import { showError } from "../dom.js";
import { estimateSentence, expectedSentence } from "../balance.js";
import { changeSentence } from "../history.js";
import { alignmentText, answeredPart, reportLines, showUnseenProblem } from "../jobs.js";
import { fill, localeOf, message, readable, setLanguage, term } from "../language.js";
import { shotSentences, takeEach } from "../shots.js";
import { cameraProblem } from "../source.js";
import { sufficiencySentences, sufficiencyVerdict } from "../sufficiency.js";
import { texts } from "../texts.js";

globalThis.sessionStorage = globalThis.localStorage = { getItem: () => null };

let elements = {};
beforeEach(() => {
  elements = {};
  globalThis.document = { getElementById: (id) => (elements[id] ??= { textContent: "", hidden: true, focus() {} }) };
});
afterEach(() => setLanguage("en"));

test("texts take values, and keep a number with its % and a label with its direction", () => {
  assert.equal(fill("{percent} % of {label}", { percent: 90, label: "mug" }), "90\u00a0% of mug");
  assert.equal(fill("{label}: {missing}", { label: "\u05db\u05d5\u05e1" }), "\u2068\u05db\u05d5\u05e1\u2069: {missing}");
  assert.equal(message("shotCount", { count: 1 }), "1 shot");
  assert.equal(message("shotCount", { count: 2 }), "2 shots");
  assert.equal(message("a text of a later release"), "a text of a later release");
  assert.equal(term("past", "undo", { to: 3 }), "went back to entry 3");
  assert.equal(term("verbs", "of a later release"), "of a later release");
});

test("labels are read with spaces for underscores, files are named as they are", () => {
  assert.equal(readable("car_side"), "car side");
  assert.equal(message("confused", { label: "car_side", other: "sea_horse", percent: 40 }).replace("\u00a0", " "),
    "40 % of the shots of “car side” are taken for “sea horse”. Add shots that show the difference.");
  assert.equal(message("importing", { name: "car_side.orcopack" }), "“car_side.orcopack” is being read …");
});

test("the history names labels: an arrow leads from an old one to a new one, and many are counted", () => {
  const said = (change, ...labels) => changeSentence({ change, to: null, balance: "balanced", labels });
  assert.equal(said("rename", "jug", "mug"), "renamed jug → mug");
  assert.equal(said("move", "jug", "mug"), "moved a shot: jug → mug");
  assert.equal(said("learn", "mug", "sea_horse", "duck"), "learned mug, sea horse, duck");
  const many = Array.from({ length: 500 }, (_, number) => `part_${number}`);
  assert.equal(said("learn", ...many), "learned part 0, part 1, part 2, part 3, part 4, part 5 … (+494)");
  assert.equal(said("learn", ...many.slice(0, 6)), "learned part 0, part 1, part 2, part 3, part 4, part 5");
  assert.equal(said("balance"), "set the balance to “balanced” ");
});

test("a language that the page does not speak is English", () => {
  assert.equal(setLanguage("de"), "de");
  assert.equal(message("unknown"), "unbekannt");
  assert.equal(setLanguage("xx"), "en");
  assert.equal(message("unknown"), "unknown");
});

test("all languages take the same values", () => {
  const values = (text) => [...JSON.stringify(text).matchAll(/\{\w+\}/g)].map(([value]) => value).sort();
  for (const [language, own] of Object.entries(texts)) {
    for (const key of Object.keys(texts.en)) assert.deepEqual(values(own[key]), values(texts.en[key]), `${language}: ${key}`);
  }
});

test("a report says what was learned, lost and confused, the worst three of each", () => {
  const lost = ["a", "b", "c", "d"].map((label) => ({ label, before: 1, after: 0.5 }));
  const report = { new: [{ label: "mug", after: 0.8 }], old_accuracy: { before: 0.9, after: 0.89 }, lost,
    confusions: [{ label: "cup", taken_for: "mug", share: 0.4 }] };
  const lines = reportLines({ report, warning: "A power cut could lose it." });
  assert.deepEqual(lines.map(({ isWarning }) => isWarning), [false, false, true, true, true, true, true]);
  assert.deepEqual(lines.map(({ text }) => text.replaceAll("\u00a0", " ")), [
    "“mug”: 80 % of its shots are recognised.",
    "Samples of what was known: 90 % recognised before, 89 % after.",
    ...["a", "b", "c"].map((label) => `“${label}” is recognised less: 100 % before, 50 % after.`),
    "40 % of the shots of “cup” are taken for “mug”. Add shots that show the difference.",
    "A power cut could lose it.",
  ]);
  assert.deepEqual(reportLines({ report: null, warning: null }), []);
  const left = "the class is purged, but its sightings are left: No space left on device; remove them once their folder can be written";
  const [{ text, isWarning }] = reportLines({ report: null, warning: left });
  assert.ok(isWarning && text.includes("list of what was seen") && text.includes("No space left on device"), text);
  const alike = { report: { one_scene: ["mug"] }, warning: null };
  assert.match(reportLines(alike, "not shown")[0].text, /show the empty place/);
  assert.match(reportLines(alike, "shown")[0].text, /other sides/);
  assert.match(reportLines(alike)[0].text, /elsewhere\.$/, "a browser's camera cannot be shown the empty place");
});

test("shots that two things share are told, and not taken for too few", () => {
  const said = (report) => reportLines({ report }).map(({ text, isWarning }) => [text, isWarning]);
  const lost = { label: "mug", after: 0, samples: 0 };
  assert.deepEqual(said({ new: [lost], sharing_shots: [["cup", "mug"]], repeated: [{ label: "mug", shots: 1 }] }), [
    ["The same pictures are shots of “cup” and of “mug”: remove them from the thing that they do not show.", true],
    ["One shot of “mug” is a copy of another, which teaches nothing: take one from another side.", false],
  ]);
  assert.match(said({ new: [lost], sharing_shots: [["cup", "jug"]], repeated: [] })[0][0], /a single shot is too few/);
});

test("where answers name learned classes alone, a report says nothing of base classes", () => {
  const classes = ["cup", "hat", "mug", "jar"].map((label, index) => ({ label, learned: index > 1 }));
  const report = { new: [{ label: "mug", after: 0.6 }], old_accuracy: { before: 0.9, after: 0.9 },
    lost: [{ label: "hat", before: 1, after: 0.2 }, { label: "jar", before: 1, after: 0.2 }],
    confusions: ["cup", "jar"].map((taken_for) => ({ label: "mug", taken_for, share: 0.2 })) };
  const said = reportLines({ report: answeredPart(report, classes) }).map(({ text }) => text.replaceAll("\u00a0", " "));
  assert.deepEqual(said, [
    "“mug”: 60 % of its shots are recognised.",
    "“jar” is recognised less: 100 % before, 20 % after.",
    "20 % of the shots of “mug” are taken for “jar”. Add shots that show the difference.",
  ]);
  assert.equal(answeredPart(null, classes), null);
});

test("of a single shot nothing is said of how it is recognised", () => {
  for (const [language, said] of [["en", /^“mug”: a single shot is too few to judge/], ["de", /^„mug“: Nach einer einzigen Aufnahme/]]) {
    setLanguage(language);
    const text = (samples) => reportLines({ report: { new: [{ label: "mug", after: 0, samples }] } })[0].text;
    assert.match(text(0), said);
    assert.match(text(2), /0\u00a0%/);
  }
});

test("dates are written as where the browser's user lives, in the page's language", () => {
  const locale = (language, ...wanted) => localeOf(language, wanted);
  assert.equal(locale("en", "en-GB", "en-US", "en"), "en-GB");
  assert.equal(locale("en", "de-AT", "de", "en-US"), "en-US");
  assert.equal(locale("en", "de-DE", "de"), "en-DE");
  assert.equal(locale("de", "en"), "de");
  assert.equal(locale("de", "de", "en"), "de");
  assert.equal(locale("en", "en-US@posix", "en"), "en");
  const day = new Date(2026, 10, 27).toLocaleDateString(locale("en", "en-GB", "en"), { dateStyle: "short" });
  assert.equal(day, "27/11/2026");
});

test("a sample more or less is no loss", () => {
  const lost = [{ label: "mug", before: 1, after: 0.8 }, { label: "cup", before: 1, after: 0.6 }];
  assert.deepEqual(reportLines({ report: { lost } }).filter(({ isWarning }) => isWarning).map(({ text }) => text.includes("cup")), [true]);
});

test("shots that are taken for others are named by their numbers", () => {
  const left_out = ["cup", null, "cup", "bowl", "jar"].map((taken_for, index) => ({ id: `1-${index}`, taken_for }));
  const expected = { now: 0.72, one_more: 0.84, two_more: 0.86 };
  const sentences = sufficiencySentences({ shots: 5, recognised: 1, left_out, expected });
  assert.deepEqual(sentences.slice(0, 3), [
    "1 of 5 recognised when left out.",
    "Shots 1, 3 are most like “cup” so far: more shots of that kind will tell them apart.",
    "Shot 4 is most like “bowl” so far: more shots of that kind will tell them apart.",
  ]);
  assert.equal(sentences.length, 4);
  assert.deepEqual(sufficiencySentences({ shots: 1, recognised: 0, left_out: [], expected: null }), []);
});

test("what a class is taken for is not said a second time as a loss", () => {
  const report = { lost: [{ label: "cup", before: 1, after: 0.2 }], confusions: [{ label: "cup", taken_for: "mug", share: 0.8 }] };
  assert.equal(reportLines({ report, warning: null }).length, 1);
});

test("of a shot that was taken anyway, only what it looks like is news", () => {
  const warnings = [{ kind: "too-dark" }, { kind: "repeated", label: "cup" }, { kind: "repeated", label: "mug" },
    { kind: "looks-like", label: "cup", probability: 0.7 }];
  const said = (anyway, isLearned) => shotSentences(warnings, { label: "mug", anyway, isLearned });
  const { warnings: [dark, elsewhere, repeated, ...others], notes } = said(false, false);
  assert.equal(dark, "Not taken: too dark.");
  assert.match(elsewhere, /is a shot of “cup” already/);
  assert.match(repeated, /the same picture again/);
  assert.deepEqual([others, notes], [[], ["Similar to “cup”; more shots will tell them apart."]]);
  assert.deepEqual(said(true, false), { warnings: [], notes });
  // What is learned and taken for something else is a warning; the verdict says what to do.
  const still = said(true, true);
  assert.deepEqual(still.notes, []);
  assert.match(still.warnings.join(), /^This shot looks like “cup” \(70.%\)\.$/);
});

test("a balance says what it recognises and what it mistakes", () => {
  const estimate = { balance: "balanced", shots: 20, recognised: 18, base_samples: 400, taken_for_learned: 3 };
  assert.equal(estimateSentence(estimate), "Recognises 18 of 20 stored shots, and takes 3 of 400 other things for yours.");
});

test("answers may still change, then are final, and nothing is said where no head was aligned", () => {
  assert.equal(alignmentText(null, false), "");
  assert.equal(alignmentText({ improving: false }, false), "");
  assert.equal(alignmentText({ improving: true }, true), "Answers follow the change already and may still change \u2026");
  assert.equal(alignmentText({ improving: false }, true), "Answers are final now.");
});

test("one verdict says whether to take more shots", () => {
  const seen = (count, missed = 0) => Array.from({ length: count }, (_, index) => ({ taken_for: index < missed ? "cup" : null }));
  const verdict = (shots, missed, now, two) =>
    sufficiencyVerdict({ shots, left_out: seen(shots, missed), expected: { now, two_more: two } });
  assert.deepEqual(verdict(5, 0, 0.95, 0.96), { isEnough: true, count: 0, text: "verdictEnough" });
  assert.equal(verdict(5, 1, 0.95, 0.96).count, 2);
  assert.equal(verdict(5, 0, 0.8, 0.9).count, 2);
  assert.equal(verdict(2, 0, 0.95, 0.96).count, 3);
  assert.equal(sufficiencyVerdict({ shots: 4, left_out: seen(4), expected: null }).isEnough, true);
  const odd = verdict(5, 1, 0.95, 0.96);
  assert.match(message(odd.text, odd), /^Shot \d looks like “.+”: remove it if it shows that/, "one that alone does not fit");
  assert.equal(verdict(5, 2, 0.95, 0.96).text, "verdictMore");
  assert.equal(verdict(3, 1, 0.95, 0.96).text, "verdictMore", "of three, one is a third");
  // What does not fit a thing that is learned already is said of the first shot.
  const added = (shots, missed) => sufficiencyVerdict({ shots, left_out: seen(shots, missed), expected: null }, true);
  assert.deepEqual(added(1, 1), { isEnough: false, count: 2, number: 1, label: "cup", text: "verdictOdd" });
  assert.deepEqual([added(1, 0), added(3, 2)].map(({ text }) => text), ["verdictMore", "verdictMore"]);
});

test("of several pictures, all that were refused are said, and taken anyway", async () => {
  const sent = [];
  globalThis.fetch = async (path, { body }) => {
    sent.push(`${body.name}${path.includes("anyway") ? " anyway" : ""}`);
    const accepted = body.name === "good.jpg" || path.includes("anyway");
    const warnings = body.name === "good.jpg" ? [] : [{ kind: body.name === "dark.png" ? "too-dark" : "blurred" }];
    return { ok: true, json: async () => ({ accepted, id: body.name, warnings }) };
  };
  const files = ["dark.png", "good.jpg", "blurred.jpg"].map((name) => ({ shot: new File([], name), label: "mug" }));
  await takeEach(files);
  assert.equal(elements["shot-warning"].textContent, "dark.png: Not taken: too dark. blurred.jpg: Not taken: blurred.");
  assert.equal(elements["anyway-row"].hidden, false);
  const { fetch } = globalThis;
  globalThis.fetch = async () => ({ ok: false, status: 429, json: async () => ({ error: "busy" }) });
  await takeEach([files[0], files[2]], { anyway: true });
  assert.equal(elements["anyway-row"].hidden, false, "they can be taken again");
  globalThis.fetch = fetch;
  await takeEach([files[0], files[2]], { anyway: true });
  assert.deepEqual(sent.slice(3), ["dark.png anyway", "blurred.jpg anyway"]);
  assert.equal(elements["anyway-row"].hidden, true);
  showError();
});

test("pictures that are being taken are not taken twice", async () => {
  const sent = [];
  globalThis.fetch = async (path, { body }) => {
    sent.push(body.name);
    return { ok: true, json: async () => ({ accepted: true, id: body.name, warnings: [] }) };
  };
  const files = ["1.jpg", "2.jpg"].map((name) => ({ shot: new File([], name), label: "mug" }));
  const first = takeEach(files, { anyway: true });
  assert.equal(elements.anyway.disabled, true);
  await Promise.all([first, takeEach(files, { anyway: true })]);
  assert.deepEqual(sent, ["1.jpg", "2.jpg"]);
  assert.equal(elements.anyway.disabled, false);
});

test("why there is no camera is said with what to do, in the page's language", () => {
  const problem = (name) => cameraProblem({ name, message: "in the browser's words" });
  setLanguage("de");
  assert.match(problem("NotAllowedError"), /Einstellungen/);
  assert.match(problem("NotFoundError"), /Bilder auswählen/);
  assert.match(problem("NotReadableError"), /anderes Programm/);
  assert.match(problem("AbortError"), /in the browser's words$/);
  assert.match(cameraProblem({ name: "OverconstrainedError", message: "" }), /OverconstrainedError$/);
});

test("of several files that cannot be read, none is passed over in silence", async () => {
  globalThis.fetch = async (path, { body }) => {
    if (body.name.endsWith(".gone")) throw new TypeError("the service is gone");
    const code = { heic: "unsupported_media_type", jpg: "picture_damaged" }[body.name.split(".")[1]];
    if (!code) return { ok: true, json: async () => ({ accepted: true, id: body.name, warnings: [] }) };
    return { ok: false, status: 400, json: async () => ({ code, error: code }) };
  };
  const take = (...names) => takeEach(names.map((name) => ({ shot: new File([], name), label: "mug" })));
  const [unreadable, damaged] = ["Only pictures in JPEG, PNG and WebP can be read: save it as one of them.", "The picture is damaged."];
  await take("1.heic", "2.png", "3.jpg", "4.heic");
  assert.equal(elements.error.textContent, `1.heic, 4.heic: ${unreadable} 3.jpg: ${damaged}`);
  await take(...[1, 2, 3, 4, 5, 6, 7].map((number) => `${number}.heic`));
  assert.equal(elements.error.textContent, `1.heic, 2.heic, 3.heic, 4.heic, 5.heic, …: ${unreadable}`);
  await take("5.jpg");
  assert.equal(elements.error.textContent, `5.jpg: ${damaged}`);
  await take("1.heic", "2.heic", "3.gone");
  assert.equal(elements.error.textContent, message("notReached"));
  showError();
});

test("why several files are not taken is said once, after their names", async () => {
  const take = async (warnings, ...names) => {
    globalThis.fetch = async () => ({ ok: true, json: async () => ({ accepted: false, id: null, warnings }) });
    await takeEach(names.map((name) => ({ shot: new File([], name), label: "mug" })));
    return elements["shot-warning"].textContent;
  };
  assert.equal(await take([{ kind: "too-dark" }], "1.jpg"), "1.jpg: Not taken: too dark.");
  assert.equal(await take([{ kind: "too-dark" }, { kind: "blurred" }], "1.jpg", "2.jpg"),
    "1.jpg, 2.jpg: Not taken: too dark. 1.jpg, 2.jpg: Not taken: blurred.");
  const names = Array.from({ length: 100 }, (_, index) => `${index}.jpg`);
  assert.equal(await take([{ kind: "repeated", label: "mug" }], ...names),
    `0.jpg, 1.jpg, 2.jpg, 3.jpg, 4.jpg, …: ${message("repeated")}`);
});

test("accuracies are told as far as samples say them", () => {
  const expected = { base: 0.9, learned: 0.8, learned_range: [0.7, 0.85] };
  assert.match(expectedSentence(expected).replaceAll("\u00a0", " "), /: 70–\u206085 % right on what it learned, 90 % on/);
  assert.match(expectedSentence({ ...expected, base: null }).replaceAll("\u00a0", " "), /: 70–\u206085 % right on what it learned\.$/);
  assert.match(expectedSentence({ learned: 0.8, learned_range: [0.7, 0.85] }).replaceAll("\u00a0", " "), /: 70–\u206085 % right on what it learned\.$/);
  assert.equal(expectedSentence({ base: 0.9, learned: null, learned_range: null }), "");
  assert.equal(expectedSentence(null), "");
});

test("a failed change or a warning is told to whoever does not see its report, and to nobody else", () => {
  const told = (job, tab, label) => {
    showError();
    showUnseenProblem({ job, tab, label });
    return elements.error.textContent;
  };
  const failed = { state: "failed", label: "mug", error: "the disk is full" };
  assert.equal(told(failed, "knows", "mug"), "Nothing was changed: The disk is full.");
  assert.equal(told(failed, "teach", "cup"), "Nothing was changed: The disk is full.", "the next label was typed already");
  assert.equal(told(failed, "teach", "mug"), "");
  const done = { state: "done", label: null, warning: "the class is purged, but something else still names it: why" };
  assert.match(told(done, "knows", ""), /^The class is purged, but /);
  assert.equal(told(done, "teach", ""), "");
  assert.equal(told({ ...done, warning: null }, "knows", ""), "");
  assert.equal(told({ ...failed, state: "running" }, "knows", "mug"), "");
  assert.equal(told(null, "knows", ""), "");
  showError();
});
