// SPDX-License-Identifier: Apache-2.0

// Package exercise writes, reads and checks memory, and times its accesses: the same work on a map
// of package vmm, on plain memory, and on memory that the kernel swaps. Internal to this project.
//
// The work has four steps, each of which covers pages of 4096 bytes:
//
//	fill    all pages are written, in order
//	random  pages are read or written; nine of ten accesses go to a tenth of the pages
//	scan    all pages are added up, in order
//	hash    SHA-256 of the whole memory
//
// The content of a page follows from its number and from how often it was written. So what is read
// is known without a copy of the memory, and the hash of the whole memory as well.
package exercise
