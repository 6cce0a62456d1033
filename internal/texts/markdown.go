// SPDX-License-Identifier: Apache-2.0

package texts

// This file breaks the long lines of generated pages.

import (
	"strings"
	"unicode/utf8"
)

// MarkdownWidth is the largest number of columns in a line of a page.
const MarkdownWidth = 200

// FitMarkdown breaks the lines that have more than MarkdownWidth columns. Words that have no room in a cell
// of a table go to a further row, whose other cells are empty. The rest of an item of a
// list is indented. Headings and code blocks stay, and so do words, links and images that
// are longer than a line.
func FitMarkdown(page string) string {
	var b strings.Builder
	fenced := false
	for line := range strings.Lines(page) {
		text := strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(text, "```") {
			fenced = !fenced
		}
		switch {
		case utf8.RuneCountInString(text) <= MarkdownWidth, fenced, strings.HasPrefix(text, "    "), strings.HasPrefix(text, "#"):
			b.WriteString(line)
		case strings.HasPrefix(text, "|"):
			b.WriteString(fitRow(text))
		default:
			b.WriteString(fitProse(text))
		}
	}
	return b.String()
}

// fitProse breaks a line of a paragraph or of a list.
func fitProse(line string) string {
	text := strings.TrimLeft(line, " ")
	indent := line[:len(line)-len(text)]
	rest := indent
	if strings.HasPrefix(text, "- ") {
		rest += "  "
	}
	lines := wrap(text, MarkdownWidth-len(rest))
	return indent + strings.Join(lines, "\n"+rest) + "\n"
}

// fitRow breaks a row of a table.
func fitRow(line string) string {
	cells := splitCells(line)
	room := MarkdownWidth - 1 - 3*len(cells)
	width := columnWidth(cells, room)
	columns, rows := make([][]string, len(cells)), 0
	for i, c := range cells {
		columns[i] = balanced(c, width)
		rows = max(rows, len(columns[i]))
	}
	var b strings.Builder
	for r := range rows {
		b.WriteByte('|')
		for _, c := range columns {
			text := ""
			if r < len(c) {
				text = c[r]
			}
			b.WriteString(" " + text + " |")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// splitCells returns the cells of a row. A bar after a backslash is part of a cell.
func splitCells(line string) []string {
	line = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "|"), "|")
	var cells []string
	begin := 0
	for i := range len(line) {
		if line[i] == '|' && (i == 0 || line[i-1] != '\\') {
			cells = append(cells, strings.TrimSpace(line[begin:i]))
			begin = i + 1
		}
	}
	return append(cells, strings.TrimSpace(line[begin:]))
}

// columnWidth returns the largest width to which all cells can be cut so that they have room
// next to each other.
func columnWidth(cells []string, room int) int {
	width := room
	for ; width > 1; width-- {
		sum := 0
		for _, c := range cells {
			sum += min(width, utf8.RuneCountInString(c))
		}
		if sum <= room {
			break
		}
	}
	return width
}

// wrap breaks a text into lines. A line ends after a sentence or a semicolon if that leaves
// it more than half full. Code that is broken gets a backquote on both sides.
func wrap(text string, width int) []string {
	var lines []string
	var line []string
	used, code := 0, false
	flush := func(n int) {
		l := strings.Join(line[:n], " ")
		line = line[n:]
		used = len(line) // spaces
		for _, w := range line {
			used += utf8.RuneCountInString(w)
		}
		if strings.Count(l, "`")%2 == 1 {
			l += "`"
			if len(line) > 0 {
				line[0] = "`" + line[0]
				used++
			} else {
				code = true
			}
		}
		lines = append(lines, l)
	}
	for _, w := range units(text) {
		n := utf8.RuneCountInString(w)
		if len(line) > 0 && used+n+1 > width { // 1 for the backquote of broken code
			flush(breakAfter(line, width))
			if code {
				w, code, n = "`"+w, false, n+1
			}
		}
		line = append(line, w)
		used += n + 1
	}
	if len(line) > 0 || len(lines) == 0 {
		flush(len(line))
	}
	return lines
}

// breakAfter returns after how many words a line ends.
func breakAfter(words []string, width int) int {
	best, used, code := len(words), 0, false
	for i, w := range words {
		used += utf8.RuneCountInString(w) + 1
		code = code != (strings.Count(w, "`")%2 == 1)
		if !code && used > width/2 && (strings.HasSuffix(w, ".") || strings.HasSuffix(w, ";")) {
			best = i + 1
		}
	}
	return best
}

// balanced wraps a text into as few lines as its width allows, of about the same length.
func balanced(text string, width int) []string {
	lines := wrap(text, width)
	for narrow := width - 1; narrow > width/2; narrow-- {
		next := wrap(text, narrow)
		if len(next) > len(lines) || longest(next) > longest(lines) {
			break
		}
		lines = next
	}
	return lines
}

func longest(lines []string) (n int) {
	for _, l := range lines {
		n = max(n, utf8.RuneCountInString(l))
	}
	return n
}

// mostCode is the length of code that is not broken.
const mostCode = 60

// units returns the words of a text. A link, an image and short code are one unit.
func units(text string) []string {
	var all []string
	open := false
	for _, w := range strings.Split(text, " ") {
		if open {
			all[len(all)-1] += " " + w
		} else {
			all = append(all, w)
		}
		last := all[len(all)-1]
		inCode := strings.Count(last, "`")%2 == 1
		open = inCode || strings.Count(last, "[") > strings.Count(last, "]") && !strings.Contains(last, "`")
		if !open && utf8.RuneCountInString(last) > mostCode && strings.Contains(last, "`") {
			all = append(all[:len(all)-1], strings.Split(last, " ")...)
		}
	}
	return all
}
