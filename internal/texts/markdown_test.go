// SPDX-License-Identifier: Apache-2.0

package texts

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestFit(t *testing.T) {
	long := strings.Repeat("word ", 30)                      // 150 columns
	code := strings.TrimSpace(strings.Repeat("run-xy ", 30)) // 209 columns
	for name, c := range map[string]struct{ page, want string }{
		"short": {"a line\n\n| a | b |\n", "a line\n\n| a | b |\n"},
		"prose": {long + "ends. " + long + "\n", long + "ends.\n" + long + "\n"},
		"item":  {"- " + long + "ends; " + long + "z\n", "- " + long + "ends;\n  " + long + "z\n"},
		"row":   {"| `a` | " + long + "ends. " + long + "z | c |\n", "| `a` | " + long + "ends. | c |\n|  | " + long + "z |  |\n"},
		"code": {"| x | `" + code + "` |\n", "| x | `" + strings.TrimSpace(strings.Repeat("run-xy ", 15)) + "` |\n|  | `" +
			strings.TrimSpace(strings.Repeat("run-xy ", 15)) + "` |\n"},
		"escaped bar":  {`| a \| b | ` + long + "ends. " + long + "z |\n", `| a \| b | ` + long + "ends. |\n|  | " + long + "z |\n"},
		"fenced code":  {"```\n" + code + "\n```\n", "```\n" + code + "\n```\n"},
		"indented":     {"    " + code + "\n", "    " + code + "\n"},
		"heading":      {"# " + code + "\n", "# " + code + "\n"},
		"link":         {long + "1234567890123456789012345678901234567890 [a link](there)\n", long + "1234567890123456789012345678901234567890\n[a link](there)\n"},
		"several rows": {"| " + long + long + long + " | " + long + " |\n", ""},
	} {
		got := FitMarkdown(c.page)
		if c.want != "" && strings.ReplaceAll(got, " \n", "\n") != strings.ReplaceAll(c.want, " \n", "\n") {
			t.Errorf("%s: -want +got\n%s", name, cmp.Diff(c.want, got))
		}
		for line := range strings.Lines(got) {
			if n := utf8.RuneCountInString(line); n > MarkdownWidth+1 && !strings.HasPrefix(c.page, "#") && !strings.Contains(c.page, "    run") && !strings.HasPrefix(c.page, "```") {
				t.Errorf("%s: a line of %d columns: %s", name, n, line)
			}
		}
		if again := FitMarkdown(got); again != got {
			t.Errorf("%s: changed by the second call: -first +second\n%s", name, cmp.Diff(got, again))
		}
		if a, b := words(c.page), words(got); a != b {
			t.Errorf("%s: words: -before +after\n%s", name, cmp.Diff(a, b))
		}
	}
}

// words are those of a page, without the marks of tables and of code.
func words(page string) int {
	return len(strings.Fields(strings.NewReplacer("|", " ", "`", " ").Replace(page)))
}
