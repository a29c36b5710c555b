// The page's one state. Parts of the page read it, change it with `update`, and subscribe to the fields that they show.

export function createStore(fields) {
  let state = Object.freeze({ ...fields });
  const subscriptions = [];
  return {
    get state() { return state; },

    // Sets fields, then calls the listeners of those that have another value, in the order in which they subscribed.
    update(changes) {
      const unknown = Object.keys(changes).find((field) => !(field in state));
      if (unknown) throw new Error(`the state has no field ${unknown}`);
      const changed = Object.keys(changes).filter((field) => !Object.is(state[field], changes[field]));
      state = Object.freeze({ ...state, ...changes });
      for (const { fields, listener } of subscriptions) {
        // A listener may have changed the state again: all get the newest.
        if (fields.some((field) => changed.includes(field))) listener(state);
      }
    },

    // Calls `listener` with the state whenever one of the fields has changed.
    subscribe(fields, listener) {
      const unknown = fields.find((field) => !(field in state));
      if (unknown) throw new Error(`the state has no field ${unknown}`);
      subscriptions.push({ fields, listener });
    },
  };
}

export const NO_ANSWER = { matches: [], set: [], known: true, empty: false };

export const store = createStore({
  // What the service last reported.
  connected: null, // null until the first attempt ends
  missed: 0, // requests that have not reached the service
  status: null,
  classes: [],
  history: [], // entries, the oldest first
  present: 0, // number of the entry that led to what is known now
  earlier: [], // numbers of the entries before that one, which undoing goes back to
  inbox: null, // { groups, most }
  sightings: { kept: false, most: 0, problem: null, sightings: [] }, // what the service's own camera saw, the newest first
  shots: [], // shots of `label` that are not learned yet
  waiting: [], // labels with such shots, `label` left out
  job: null, // the change that is made, or was made last
  balances: [], // what each balance would recognise
  outlook: {}, // { expected, expected_learned_only }: accuracies to be expected with the present one
  regions: [], // of the service's own camera: { name, box }
  deviceCamera: null, // state of the service's own camera, if it has one

  // What people chose on this page.
  language: "en",
  tab: "teach",
  label: "",
  stream: null, // the browser's camera, while it runs
  files: [],
  collects: null, // whether unknown pictures of the browser's camera may be kept; null until somebody decides
  deviceChosen: false, // whether the service's own camera is the source
  devicePicture: null, // address of its newest frame
  chosenThing: null, // id of the thing that shots are taken of; the one in the middle if there is none

  answer: NO_ANSWER,
  hasVerdict: false, // whether the page says if the shots are enough
  reportSeen: null, // id of the change whose report was seen last
  explanation: null, // stored shots that a picture is most like
});
