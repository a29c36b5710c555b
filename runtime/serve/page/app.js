// The page. Every part shows fields of the store and changes them; the service's events arrive in the store, too.
import { startAnswer } from "./answer.js";
import { startClasses } from "./classes.js";
import { startDevice } from "./device.js";
import { listen } from "./events.js";
import { startHeader } from "./header.js";
import { startHistory } from "./history.js";
import { startInbox } from "./inbox.js";
import { startJobs } from "./jobs.js";
import { startRegions } from "./regions.js";
import { pictureSize, startScene, viewSize } from "./scene.js";
import { takeTokenFromAddress } from "./service.js";
import { startShots } from "./shots.js";
import { startSource } from "./source.js";

takeTokenFromAddress();
startHeader();
startSource();
startDevice();
startScene();
startRegions(pictureSize, viewSize);
startAnswer();
startShots();
startInbox();
startJobs();
startClasses();
startHistory();
listen();
