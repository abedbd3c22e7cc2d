package cloudconfig

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/agent/fault"
)

// FuzzRender: rendering a template twice gives the same text, and a text without braces stays as it is. Rendering adds
// at most sizeLimit bytes to a text. The text of every error may be shown.
func FuzzRender(f *testing.F) {
	f.Add("a {{ ds.meta_data.zone | upper }} b")
	f.Add("{% raw %}{{ x }}{% endraw %}{# c #}{{- 'a' | replace('a', 'aa') | replace('', 'b') -}}")
	f.Add("{{ nothing | default('x', true) }}{{ ds['meta_data'][0] }}")
	f.Add("{{'a'|replace('a','aaaaaaaa')|replace('a','aaaaaaaa')|replace('a','aaaaaaaa')}}")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > sizeLimit {
			return
		}
		first, err := render(text, testVars)
		if err != nil && fault.Text(err, "") == "" {
			t.Fatalf("an error without a text that may be shown: %v", err)
		}
		if err == nil && len(first) > sizeLimit+len(text) {
			t.Fatalf("%d bytes became %d", len(text), len(first))
		}
		if second, again := render(text, testVars); second != first || (err == nil) != (again == nil) {
			t.Fatalf("rendering twice gives %q, then %q", first, second)
		}
		if !strings.Contains(text, "{") && (err != nil || first != text) {
			t.Fatalf("a text without braces became %q, %v", first, err)
		}
	})
}

// FuzzFile: Open returns exactly the text that was compressed or that is the plain content. For compressed content,
// unpackedSize returns the number of bytes that Open yields.
func FuzzFile(f *testing.F) {
	f.Add("content", "")
	f.Add("Y29udGVudA==\n", "b64")
	f.Add(string([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0}), "gz")
	f.Fuzz(func(t *testing.T, text, encoding string) {
		data, packed, err := decode(text, encoding)
		if err != nil {
			return
		}
		const left = 1 << 20
		file := File{Content: data, Packed: packed}
		content, err := file.Open()
		if !packed {
			read, readErr := io.ReadAll(content)
			if err != nil || readErr != nil || encoding == "" && string(read) != text {
				t.Fatalf("plain content is %q, %v, %v", read, err, readErr)
			}
		} else if size, sizeErr := unpackedSize(data, left); sizeErr == nil {
			read, readErr := io.ReadAll(content)
			if err != nil || readErr != nil || int64(len(read)) != size || size > left {
				t.Fatalf("%d bytes were counted, %d read: %v, %v", size, len(read), err, readErr)
			}
		}
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write([]byte(text)); err != nil || z.Close() != nil {
			t.Fatal("packing failed")
		}
		content, err = File{Content: b.Bytes(), Packed: true}.Open()
		if err != nil {
			t.Fatal(err)
		}
		if read, err := io.ReadAll(content); err != nil || string(read) != text {
			t.Fatalf("packed content is %q, %v", read, err)
		}
	})
}
