// SPDX-License-Identifier: Apache-2.0

// Package files stores what has to survive a restart (statefile.go), and reads YAML that people write (yamlfile.go).
// StillAt is for files whose lock is a right of one process.
package files
