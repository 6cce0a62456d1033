// SPDX-License-Identifier: Apache-2.0

// Package texts is about text for people: names that were probably meant, text of other hosts that is safe to print,
// the progress of long work, and the lines of generated pages.
package texts
