// The page. Every part shows fields of the store and changes them; the service's events arrive in the store, too.
import { startAnswer } from "./answer.js";
import { startClasses } from "./classes.js";
import { startConsent } from "./consent.js";
import { startDevice } from "./device.js";
import { startDial } from "./dial.js";
import { listen } from "./events.js";
import { startHeader } from "./header.js";
import { startHistory } from "./history.js";
import { startInbox } from "./inbox.js";
import { startJobs } from "./jobs.js";
import { startRegions } from "./regions.js";
import { pictureSize, startScene, viewSize } from "./scene.js";
import { startScope } from "./scope.js";
import { takeTokenFromAddress, tokenInAddress } from "./service.js";
import { startShots } from "./shots.js";
import { startSightings } from "./sightings.js";
import { startTransfer } from "./transfer.js";
import { startSource } from "./source.js";
import { startTabs } from "./tabs.js";

takeTokenFromAddress();
// An address with a new token, in a tab that shows the page already, differs by its fragment alone. It is taken
// by the page that is loaded: a browser that keeps nothing would lose it on the way.
window.addEventListener("hashchange", () => { if (tokenInAddress()) location.reload(); });
startHeader();
startTabs();
startSource();
startDevice();
startScene();
startRegions(pictureSize, viewSize);
startConsent();
startAnswer();
startShots();
startInbox();
startSightings();
startJobs();
startClasses();
startDial();
startScope();
startHistory();
startTransfer();
listen();
