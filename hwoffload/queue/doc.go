// SPDX-License-Identifier: Apache-2.0

// Package queue drives the data path of a card (S2.2 to S2.4, S2.6): memory regions, completion
// queues, queue pairs and their work requests. It uses registers and the DDR window only, so it
// works with each hwoffload.Device: a BAR, a simulator, and the model of package card.
//
// Types of work requests, completions and attributes are those of package verbs, and
// verbs.Connect connects a QP. Memory is card memory: a region is a range of the DDR, which the
// CPU fills and reads through hwoffload.DDR.
//
// A Device is for one process. Methods of different objects may be called concurrently; those of
// one QP, CQ or SRQ may not, except that Poll may be called while work is posted.
package queue
