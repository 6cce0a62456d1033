// SPDX-License-Identifier: Apache-2.0

// Package experiment runs the scenarios of package scenario on the simulator and says what came
// out. Internal to this project. A Job is one run: a scenario, a scheme and a seed. Its Result
// depends on nothing else; jobs may run in parallel.
package experiment
