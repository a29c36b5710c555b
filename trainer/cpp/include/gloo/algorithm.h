// Takes the place of a header of Gloo that PyTorch's wheel lacks. c10d's ProcessGroupGloo.hpp includes it and uses
// nothing of it.
#pragma once
