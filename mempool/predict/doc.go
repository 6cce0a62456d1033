// SPDX-License-Identifier: Apache-2.0

// Package predict decides how much of the memory pool each node gets in the next period (S4.2).
// Internal to this project.
//
// A Node predicts the need of one node: it learns from the demand and the utilisation of each period, and
// returns one number of pages for the next periods. A small neural network makes the prediction. It is
// trained after every period with the quantile loss (Pinball), because a page that is missing costs more than a
// page that is unused. A guard compares the network with five simple predictors on the same node, and
// takes the best of them where the network is worse.
//
// Allocate divides the pool by these needs. It is a pure function of integers.
//
// A Node and a Network have one owner at a time. Equal seeds and equal samples give equal results on one
// architecture. A period allocates no memory. docs/study/memory-prediction.md has the experiment with real traces.
//
// Files: node.go, guard.go and report.go are the Node; features.go makes the inputs of the network from
// the history; network.go and pinball.go are the network and its loss; simple.go has the simple
// predictors; train.go and start.go make the first weights; allocate.go divides the pool.
package predict
