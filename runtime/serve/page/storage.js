// What the browser keeps for the page: the language, the token, the consent.

// A storage of the browser. Where people forbid sites to keep anything, each use of it throws: the page then holds the
// values itself until it is closed.
function keeper(name) {
  const held = new Map();
  return {
    get(key) {
      if (held.has(key)) return held.get(key);
      try {
        return globalThis[name].getItem(key);
      } catch {
        return null;
      }
    },
    set(key, value) {
      held.delete(key);
      try {
        globalThis[name].setItem(key, value);
      } catch {
        held.set(key, value);
      }
    },
    remove(key) {
      held.delete(key);
      try {
        globalThis[name].removeItem(key);
      } catch { /* Nothing is kept. */ }
    },
  };
}

export const tabStorage = keeper("sessionStorage");
export const browserStorage = keeper("localStorage");
