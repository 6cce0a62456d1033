// SPDX-License-Identifier: Apache-2.0

// Package report turns the results of the library of scenarios into
// docs/study/congestion-control.md with its pictures. Internal to this project. Every figure, mark
// and list of what was missed in it is made from the results; only the words around them are
// written by hand (document.md.tmpl).
package report
