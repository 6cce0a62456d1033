// SPDX-License-Identifier: Apache-2.0

// Package files stores what has to survive a restart (statefile.go), and reads YAML that people write (yamlfile.go).
package files
