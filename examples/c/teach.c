/*
 * Teaches a device classes, asks it about other pictures, and takes the lesson back:
 *
 *     teach BUNDLE STATE LABEL=SHOT... PICTURE...
 *
 * runtime/bindings/c/README.md says how to build and run it.
 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orco.h"

/* Ends the program unless a call did what it should. A change is made all the same where it may not outlive a power
   cut, or where the head was not aligned to it. */
static void check(OrcoStatus status, const char *what) {
    if (status == ORCO_STATUS_OK) return;
    fprintf(stderr, "%s: %s\n", what, orco_error());
    if (status != ORCO_STATUS_UNCERTAIN && status != ORCO_STATUS_UNALIGNED) exit(1);
}

/* Prints what a picture shows, and what is next likely. */
static void classify(const OrcoLearner *learner, const char *path) {
    OrcoAnswer *answer = NULL;
    check(orco_classify_file(learner, path, 2, &answer), path);
    printf("%s:", path);
    for (size_t i = 0; i < orco_answer_count(answer); i++) {
        printf(" %s (%.2f)", orco_answer_label(answer, i), orco_answer_score(answer, i));
    }
    printf("%s\n", orco_answer_known(answer) ? "" : " - but it is like nothing known");
    orco_answer_free(answer);
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: teach BUNDLE STATE LABEL=SHOT... PICTURE...\n");
        return 2;
    }
    OrcoLearner *learner = NULL;
    check(orco_open(argv[1], argv[2], &learner), "cannot open");

    OrcoShots *shots = NULL;
    check(orco_shots_new(&shots), "no shots");
    for (int i = 3; i < argc; i++) {
        char *divider = strchr(argv[i], '=');
        if (!divider) continue;
        *divider = '\0';
        check(orco_shots_add_file(shots, argv[i], divider + 1), "no shot");
        *divider = '=';
    }
    OrcoReport report;
    check(orco_learn(learner, shots, &report), "cannot learn");
    orco_shots_free(shots);
    printf("learned; ");
    /* It is no number where that is not known. */
    if (!isnan(report.new_accuracy)) printf("%.0f %% of the shots are recognised, ", 100.0 * report.new_accuracy);
    printf("room for %zu more things\n", report.free_targets);

    for (int i = 3; i < argc; i++) {
        if (!strchr(argv[i], '=')) classify(learner, argv[i]);
    }
    check(orco_undo(learner, 1, &report), "cannot undo");
    printf("undone; room for %zu more things\n", report.free_targets);
    for (int i = 3; i < argc; i++) {
        if (!strchr(argv[i], '=')) classify(learner, argv[i]);
    }
    orco_free(learner);
    return 0;
}
