/*
 * OrCo learns new image classes on the device, from five shots each.
 *
 * This file is written by cbindgen from runtime/bindings/c/src; see README.md there.
 *
 * What holds for every call:
 * - Texts are UTF-8 and end with NUL. NULL is accepted only where a call says so, and refused with
 *   ORCO_STATUS_BAD_ARGUMENT elsewhere. Pointers that are not NULL must point to what the call takes.
 * - What a call hands over through a pointer to a pointer belongs to the caller, who frees it with the call named
 *   there, once. When the call fails, NULL is handed over. What a call is given stays the caller's and may be freed
 *   when it returns.
 * - ORCO_STATUS_UNCERTAIN and ORCO_STATUS_UNALIGNED are no failures: all that the call tells is written.
 * - Calls that return a status keep the text of the error for their thread: orco_error().
 * - Any thread may use a learner; calls wait for one another. Learners on the same state, in this process or in
 *   others, change it one at a time.
 * - A process that is forked after this library has computed features, as by daemon(), cannot compute any: such calls
 *   return ORCO_STATUS_ENGINE_FAILED. So does every call of a learner that another thread was using at the fork. Fork
 *   first.
 * - Calls compute with the default floating-point modes. Those of the program, such as another rounding, flushing to
 *   zero or trapping, are back when a call returns (on x86-64 and aarch64; elsewhere keep the defaults).
 * - A change is made as a whole, and saved, or nothing happened.
 */

#ifndef ORCO_H
#define ORCO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * The result of a call. After anything but `ORCO_STATUS_OK`, orco_error() says why.
 */
typedef enum OrcoStatus {
  /**
   * It is done.
   */
  ORCO_STATUS_OK = 0,
  /**
   * The change is made, or the file is written, but a power cut could lose it, or something of the old is left on
   * the disk.
   */
  ORCO_STATUS_UNCERTAIN = 1,
  /**
   * An argument is NULL, not UTF-8, an empty path, or out of range.
   */
  ORCO_STATUS_BAD_ARGUMENT = 2,
  /**
   * The bundle, its signature or the state cannot be used.
   */
  ORCO_STATUS_CANNOT_OPEN = 3,
  /**
   * A picture cannot be used.
   */
  ORCO_STATUS_BAD_PICTURE = 4,
  /**
   * The backbone cannot be started or fails.
   */
  ORCO_STATUS_ENGINE_FAILED = 5,
  /**
   * The change is refused; nothing was changed.
   */
  ORCO_STATUS_REFUSED = 6,
  /**
   * Another process is changing the same state; nothing was changed. To be tried again.
   */
  ORCO_STATUS_BUSY = 7,
  /**
   * The state cannot be read or written; nothing was changed.
   */
  ORCO_STATUS_STORE_FAILED = 8,
  /**
   * A fault in this library. The learner that it met answers nothing else from now on and is to be freed.
   */
  ORCO_STATUS_FAULT = 9,
  /**
   * The file of a backup or a pack is there already, cannot be read or written, or holds no backup; nothing was
   * changed.
   */
  ORCO_STATUS_FILE_FAILED = 10,
  /**
   * The change is made, but the head was not aligned to it: answers follow the change already, and orco_align()
   * tries again.
   */
  ORCO_STATUS_UNALIGNED = 11,
} OrcoStatus;

/**
 * How much base classes count against learned ones, when the border between both is chosen.
 */
typedef enum OrcoBalance {
  /**
   * Base classes keep their answers, wherever possible.
   */
  ORCO_BALANCE_KEEP_BASE = 0,
  /**
   * Between the two; every device starts there.
   */
  ORCO_BALANCE_BALANCED = 1,
  /**
   * Both count alike.
   */
  ORCO_BALANCE_FAVOUR_NEW = 2,
} OrcoBalance;

/**
 * Which classes are answered.
 */
typedef enum OrcoAnswerScope {
  /**
   * All that are known.
   */
  ORCO_ANSWER_SCOPE_ALL = 0,
  /**
   * All, until three classes are learned; then those alone. The program `orco` and its service start with it.
   */
  ORCO_ANSWER_SCOPE_AUTO = 1,
  /**
   * Learned classes alone. What is none of them is unknown.
   */
  ORCO_ANSWER_SCOPE_LEARNED = 2,
} OrcoAnswerScope;

/**
 * What a picture shows: known classes with their scores, highest first. Any number of threads may read it.
 */
typedef struct OrcoAnswer OrcoAnswer;

/**
 * The known classes at one moment, those of the bundle first. Any number of threads may read it.
 */
typedef struct OrcoClasses OrcoClasses;

/**
 * The remembered changes at one moment, oldest first; the first entry is the state before all of them. Any number of
 * threads may read it.
 */
typedef struct OrcoHistory OrcoHistory;

/**
 * A device that classifies pictures and learns new classes: an opened bundle and the state that was learned on it.
 * Any thread may use it; calls wait for one another.
 */
typedef struct OrcoLearner OrcoLearner;

/**
 * Labelled pictures, collected for one session. One thread at a time may use them.
 */
typedef struct OrcoShots OrcoShots;

/**
 * How much is known.
 */
typedef struct OrcoCounts {
  /**
   * Classes that the bundle brought.
   */
  size_t base_classes;
  /**
   * Classes that were learned since.
   */
  size_t learned_classes;
  /**
   * Classes that can still be learned.
   */
  size_t free_targets;
  /**
   * Changes that can be undone.
   */
  size_t changes;
} OrcoCounts;

/**
 * What a change did, measured on samples that the bundle set aside and on shots left out in turn (on the exemplars,
 * where answers follow the paper). Shares are 0 to 1, and NAN where no sample says.
 */
typedef struct OrcoReport {
  /**
   * Classes that can still be learned.
   */
  size_t free_targets;
  /**
   * Mean accuracy of the new classes.
   */
  float new_accuracy;
  /**
   * Mean accuracy of the classes known before, before the change.
   */
  float old_accuracy_before;
  /**
   * Mean accuracy of the classes known before, after the change.
   */
  float old_accuracy_after;
} OrcoReport;

/**
 * What a backup holds.
 */
typedef struct OrcoBackup {
  /**
   * Classes that were learned on the device.
   */
  size_t learned_classes;
  /**
   * Stored exemplars.
   */
  size_t exemplars;
  /**
   * Kept pictures of shots.
   */
  size_t pictures;
  /**
   * Bytes of the file.
   */
  uint64_t bytes;
} OrcoBackup;

/**
 * How a backup is restored. The strictest is all zero: `{0}` in C, `{}` in C++.
 */
typedef struct OrcoRestoreOptions {
  /**
   * The file of a public key, written by minisign; NULL for none. With a key, the bundle and the backup must both be
   * signed with it, and the bundle must not be an older release than was used before, here or where the backup was
   * written.
   */
  const char *public_key;
  /**
   * Whether what the device knows already is replaced, and gone then; it is refused otherwise.
   */
  bool replace;
  /**
   * Whether a backup of another bundle is restored, for which orco_upgrade() is to be called next; it is refused
   * otherwise.
   */
  bool other_bundle;
  /**
   * How long a change of another process is waited for, at most.
   */
  uint32_t wait_milliseconds;
} OrcoRestoreOptions;

/**
 * How a device moves to another bundle. The strictest is all zero: `{0}` in C, `{}` in C++.
 */
typedef struct OrcoUpgradeOptions {
  /**
   * The file of a public key, written by minisign; NULL for none. With a key, the bundle must be signed with it, and
   * be no older release than was used before.
   */
  const char *public_key;
  /**
   * Whether classes of which no picture is left are given up, and others recognised clearly worse than when they
   * were learned; it is refused otherwise.
   */
  bool force;
  /**
   * Whether classes of which no picture is left are given up, such as those of packs; it is still refused if others
   * are recognised clearly worse.
   */
  bool give_up_unkept;
  /**
   * How long a change of another process is waited for, at most.
   */
  uint32_t wait_milliseconds;
} OrcoUpgradeOptions;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The text of the calling thread's last error: one sentence or two. Empty if its last call returned
 * `ORCO_STATUS_OK`. Valid until that thread's next call that returns a status; never NULL.
 */
const char *orco_error(void);

/**
 * The library's version, such as "0.1.0".
 */
const char *orco_version(void);

/**
 * Opens a bundle's folder and the folder of the state that was learned on it, which need not be there yet. The
 * learner is to be freed with orco_free().
 */
enum OrcoStatus orco_open(const char *bundle,
                          const char *state,
                          struct OrcoLearner **learner);

/**
 * As orco_open(), for bundles that are signed with the key in the file `public_key`, written by minisign; others are
 * refused, and so are older releases than were used before.
 */
enum OrcoStatus orco_open_signed(const char *bundle,
                                 const char *state,
                                 const char *public_key,
                                 struct OrcoLearner **learner);

/**
 * Frees a learner; NULL is allowed. No other call may be using it.
 */
void orco_free(struct OrcoLearner *learner);

/**
 * The seed of all random draws, 1 unless it is set. The same bundle, shots and seed give the same state, byte
 * for byte, but for the times in its history.
 */
enum OrcoStatus orco_set_seed(const struct OrcoLearner *learner, uint64_t seed);

/**
 * Whether a change returns before the head is aligned to it, and orco_align() aligns it; answers follow the change at
 * once, and may change then. A change aligns the head itself, unless it is set.
 */
enum OrcoStatus orco_set_align_later(const struct OrcoLearner *learner,
                                     bool later);

/**
 * How long a change waits, at most, for another process that is changing the same state; 0 unless it is set.
 */
enum OrcoStatus orco_set_wait(const struct OrcoLearner *learner, uint32_t milliseconds);

/**
 * The share of their samples, 0 to 1, that classes may lose over all sessions: those of the bundle together, learned
 * ones together, and each where it is certain; a change that would cost more is refused. Nothing is refused unless
 * it is set; NAN takes the budget away again.
 */
enum OrcoStatus orco_set_forgetting_budget(const struct OrcoLearner *learner,
                                           float share);

/**
 * Whether the pictures of shots that are learned from now on are kept beside the state, at the size that the backbone
 * sees, so that orco_upgrade() can learn them again on another bundle. They are not, unless it is set.
 */
enum OrcoStatus orco_set_keep_shots(const struct OrcoLearner *learner,
                                    bool keep);

/**
 * Whether pictures are checked before they are learned: orco_learn() and orco_add() then refuse those that are too
 * dark or too bright, blurred, noise, or the same as another one of the call. All are taken, unless it is set.
 */
enum OrcoStatus orco_set_check_shots(const struct OrcoLearner *learner,
                                     bool check);

/**
 * Which classes are answered from the next call on: all that are known, unless it is set. `scope` is an
 * OrcoAnswerScope.
 */
enum OrcoStatus orco_set_scope(const struct OrcoLearner *learner, uint32_t scope);

/**
 * Reads the state anew, which another process may have changed. Every change does so by itself.
 */
enum OrcoStatus orco_refresh(const struct OrcoLearner *learner);

/**
 * What was wrong with the state's files when they were last read, a sentence a line; empty if nothing was. The text
 * is to be freed with orco_text_free().
 */
enum OrcoStatus orco_warnings(const struct OrcoLearner *learner,
                              char **text);

/**
 * Frees a text that a call handed over; NULL is allowed.
 */
void orco_text_free(char *text);

/**
 * Counts what is known.
 */
enum OrcoStatus orco_counts(const struct OrcoLearner *learner, struct OrcoCounts *counts);

/**
 * Lists the known classes. The list is to be freed with orco_classes_free().
 */
enum OrcoStatus orco_classes(const struct OrcoLearner *learner, struct OrcoClasses **classes);

/**
 * How many classes a list has; 0 if it is NULL.
 */
size_t orco_classes_count(const struct OrcoClasses *classes);

/**
 * The label of a class; it lives as long as the list. NULL if there is no such class.
 */
const char *orco_classes_label(const struct OrcoClasses *classes, size_t index);

/**
 * Whether a class was learned on the device; false if there is no such class.
 */
bool orco_classes_learned(const struct OrcoClasses *classes, size_t index);

/**
 * Frees a list of classes; NULL is allowed.
 */
void orco_classes_free(struct OrcoClasses *classes);

/**
 * Says what a JPEG, PNG or WebP file shows: `answer` gets the `most` likeliest classes, fewer if fewer may be
 * answered (orco_set_scope()). It is to be freed with orco_answer_free().
 */
enum OrcoStatus orco_classify_file(const struct OrcoLearner *learner,
                                   const char *path,
                                   size_t most,
                                   struct OrcoAnswer **answer);

/**
 * As orco_classify_file(), for the bytes of a JPEG, PNG or WebP file.
 */
enum OrcoStatus orco_classify_bytes(const struct OrcoLearner *learner,
                                    const uint8_t *data,
                                    size_t length,
                                    size_t most,
                                    struct OrcoAnswer **answer);

/**
 * As orco_classify_file(), for a picture in memory, as orco_shots_add_rgb() takes it.
 */
enum OrcoStatus orco_classify_rgb(const struct OrcoLearner *learner,
                                  const uint8_t *rows,
                                  uint32_t width,
                                  uint32_t height,
                                  size_t stride,
                                  size_t most,
                                  struct OrcoAnswer **answer);

/**
 * How many classes an answer has; 0 if it is NULL.
 */
size_t orco_answer_count(const struct OrcoAnswer *answer);

/**
 * Whether the picture is like anything that may be answered (orco_set_scope()); false if the answer is NULL. Where it
 * is not, the label is just the likeliest, or NULL if none may be answered. Of known pictures, five in a hundred are
 * taken for unknown; where answers do not use the bundle's statistics, nothing is unknown.
 */
bool orco_answer_known(const struct OrcoAnswer *answer);

/**
 * The label of an answer's class, 0 the likeliest; it lives as long as the answer. NULL if there is no such class.
 */
const char *orco_answer_label(const struct OrcoAnswer *answer,
                              size_t index);

/**
 * Its score: the probability of the class, 0 to 1, where answers use the bundle's statistics, as with all shipped
 * bundles, else a similarity, -1 to 1. NAN if there is no such class.
 */
float orco_answer_score(const struct OrcoAnswer *answer,
                        size_t index);

/**
 * Frees an answer; NULL is allowed.
 */
void orco_answer_free(struct OrcoAnswer *answer);

/**
 * Makes an empty collection, to be freed with orco_shots_free().
 */
enum OrcoStatus orco_shots_new(struct OrcoShots **shots);

/**
 * Frees a collection; NULL is allowed.
 */
void orco_shots_free(struct OrcoShots *shots);

/**
 * Adds a JPEG, PNG or WebP file. Pictures with the same label belong to one class.
 */
enum OrcoStatus orco_shots_add_file(struct OrcoShots *shots, const char *label, const char *path);

/**
 * Adds the bytes of a JPEG, PNG or WebP file.
 */
enum OrcoStatus orco_shots_add_bytes(struct OrcoShots *shots,
                                     const char *label,
                                     const uint8_t *data,
                                     size_t length);

/**
 * Adds a copy of a picture in memory: rows of red, green and blue bytes, from the top. Each row starts `stride`
 * bytes after the one before, 3 * width or more; the last one may end with its last pixel.
 */
enum OrcoStatus orco_shots_add_rgb(struct OrcoShots *shots,
                                   const char *label,
                                   const uint8_t *rows,
                                   uint32_t width,
                                   uint32_t height,
                                   size_t stride);

/**
 * Learns new classes in one session and saves them; or nothing is changed. `report` may be NULL.
 */
enum OrcoStatus orco_learn(const struct OrcoLearner *learner,
                           const struct OrcoShots *shots,
                           struct OrcoReport *report);

/**
 * Gives one known class, of the bundle or learned, further shots. `report` may be NULL.
 */
enum OrcoStatus orco_add(const struct OrcoLearner *learner,
                         const struct OrcoShots *shots,
                         struct OrcoReport *report);

/**
 * Forgets a learned class; orco_undo() brings it back. `report` may be NULL.
 */
enum OrcoStatus orco_forget(const struct OrcoLearner *learner, const char *label, struct OrcoReport *report);

/**
 * Gives a learned class another label.
 */
enum OrcoStatus orco_rename(const struct OrcoLearner *learner, const char *from, const char *to);

/**
 * Moves a stored shot of the class `from`, numbered from 1 as they were stored, to another known class. `report` may
 * be NULL.
 */
enum OrcoStatus orco_move_shot(const struct OrcoLearner *learner,
                               const char *from,
                               size_t number,
                               const char *to,
                               struct OrcoReport *report);

/**
 * Removes a stored shot of a class, numbered from 1 as they were stored; never the last one of a learned class.
 * orco_undo() brings it back. `report` may be NULL.
 */
enum OrcoStatus orco_remove_shot(const struct OrcoLearner *learner,
                                 const char *label,
                                 size_t number,
                                 struct OrcoReport *report);

/**
 * Forgets a learned class together with its past, for good: its exemplars, its pictures and every label it ever had
 * disappear from the state's folder. `report` may be NULL; it is left as it is where the class was forgotten before.
 */
enum OrcoStatus orco_purge(const struct OrcoLearner *learner,
                           const char *label,
                           struct OrcoReport *report);

/**
 * Aligns the head to what was learned, where that is still to be done (after orco_set_align_later()); part of the last
 * change, and undone with it. `aligned` says whether there was something to do; if not, `report` is left as it is. Both
 * may be NULL.
 */
enum OrcoStatus orco_align(const struct OrcoLearner *learner,
                           bool *aligned,
                           struct OrcoReport *report);

/**
 * Undoes the last `changes` changes; called again, it goes further back. orco_redo() redoes them. `report`
 * may be NULL.
 */
enum OrcoStatus orco_undo(const struct OrcoLearner *learner, size_t changes, struct OrcoReport *report);

/**
 * Redoes the last `changes` changes that were undone. `report` may be NULL.
 */
enum OrcoStatus orco_redo(const struct OrcoLearner *learner, size_t changes, struct OrcoReport *report);

/**
 * Tells how much base classes count against learned ones.
 */
enum OrcoStatus orco_balance(const struct OrcoLearner *learner, enum OrcoBalance *balance);

/**
 * Changes how much base classes count against learned ones, and chooses the border between both anew; nothing is
 * trained. `balance` is an OrcoBalance. `report` may be NULL. Refused if the bundle's answers have no border.
 */
enum OrcoStatus orco_set_balance(const struct OrcoLearner *learner,
                                 uint32_t balance,
                                 struct OrcoReport *report);

/**
 * Lists the changes that are remembered. The list is to be freed with orco_history_free().
 */
enum OrcoStatus orco_history(const struct OrcoLearner *learner, struct OrcoHistory **history);

/**
 * How many entries a history has; 0 if it is NULL.
 */
size_t orco_history_count(const struct OrcoHistory *history);

/**
 * The number of an entry, which it keeps; 0 for the state before all changes, and if there is no such entry.
 */
uint32_t orco_history_number(const struct OrcoHistory *history, size_t index);

/**
 * What was done, such as "learn", the same as over HTTP; "start" for the state before all changes. It lives as
 * long as the history. NULL if there is no such entry.
 */
const char *orco_history_change(const struct OrcoHistory *history,
                                size_t index);

/**
 * To how many classes it was done; 0 if there is no such entry.
 */
size_t orco_history_label_count(const struct OrcoHistory *history, size_t index);

/**
 * The label of one of these classes, empty where the class was purged; it lives as long as the history. NULL if there
 * is no such entry or class.
 */
const char *orco_history_label(const struct OrcoHistory *history,
                               size_t index,
                               size_t class_);

/**
 * When, in seconds since 1970; -1 where that was not known, and if there is no such entry.
 */
int64_t orco_history_when(const struct OrcoHistory *history, size_t index);

/**
 * How much base classes counted against learned ones from then on; ORCO_BALANCE_BALANCED if there is no such entry.
 */
enum OrcoBalance orco_history_balance(const struct OrcoHistory *history,
                                      size_t index);

/**
 * Whether this entry is the present state; false if there is no such entry.
 */
bool orco_history_present(const struct OrcoHistory *history, size_t index);

/**
 * Frees a history; NULL is allowed.
 */
void orco_history_free(struct OrcoHistory *history);

/**
 * Writes a learned class into the file `path`, a pack, for another device with the same bundle: as a whole, or not at
 * all. It holds exemplars and no picture, and is not signed; `orco export --sign` signs. `device`, which may be NULL,
 * is the name of this one, for whoever receives the pack. A file that is there already stays and the call fails,
 * unless it may `replace` it. `bytes`, which gets the size of the file, may be NULL.
 */
enum OrcoStatus orco_export(const struct OrcoLearner *learner,
                            const char *label,
                            const char *path,
                            const char *device,
                            bool replace,
                            uint64_t *bytes);

/**
 * Writes all that the device knows into the file `path`: as a whole, or not at all. A file that is there already stays
 * and the call fails, unless it may `replace` it. `backup`, which says what was written, may be NULL.
 *
 * `warnings`, which may be NULL, gets what had to be left out, a sentence a line, to be freed with orco_text_free(), or
 * NULL if nothing was.
 */
enum OrcoStatus orco_backup(const struct OrcoLearner *learner,
                            const char *path,
                            bool replace,
                            struct OrcoBackup *backup,
                            char **warnings);

/**
 * Puts what orco_backup() wrote into the folder `state` of a device with the bundle `bundle`, at once or not at all. A
 * learner that is open on that folder sees it with its next change or orco_refresh(). `options` may be NULL for all
 * zero; `backup`, which says what was restored, may be NULL.
 */
enum OrcoStatus orco_restore(const char *bundle,
                             const char *state,
                             const char *path,
                             const struct OrcoRestoreOptions *options,
                             struct OrcoBackup *backup);

/**
 * Learns the classes in the folder `state` again on the bundle `bundle`, from the pictures that orco_set_keep_shots()
 * kept. No learner may be open on that folder; open one with the new bundle afterwards. The old state is kept aside.
 * `options` may be NULL for all zero, and `report` may be NULL.
 *
 * `warnings`, which may be NULL, gets what was given up and which pictures could not be used, a sentence a line, to be
 * freed with orco_text_free(), or NULL if there is nothing to tell.
 */
enum OrcoStatus orco_upgrade(const char *bundle,
                             const char *state,
                             const struct OrcoUpgradeOptions *options,
                             struct OrcoReport *report,
                             char **warnings);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ORCO_H */
