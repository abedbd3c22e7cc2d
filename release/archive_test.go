package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPacked unpacks an archive: programs are in one directory, bundles are where the programs look for them, and a
// second build produces the same bytes.
func TestPacked(t *testing.T) {
	dir := t.TempDir()
	var programs []program
	for _, name := range []string{"capstan-dock", "capstan", "bundles/v1.36.3/capstan-kube"} {
		file := filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(file, []byte("this is "+name), 0o600); err != nil {
			t.Fatal(err)
		}
		programs = append(programs, program{name, file, 0o755})
	}
	one, err := packed("v0.1.0", date, programs)
	if err != nil {
		t.Fatal(err)
	}
	programs[0], programs[1] = programs[1], programs[0]
	if two, err := packed("v0.1.0", date, programs); err != nil || !bytes.Equal(one, two) {
		t.Errorf("a second archive, of the same programs in another order, is not the same: %v", err)
	}
	plain, err := gzip.NewReader(bytes.NewReader(one))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for r := tar.NewReader(plain); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(date) || h.Uid != 0 {
			t.Errorf("%s has the date %v and belongs to user %d", h.Name, h.ModTime, h.Uid)
		}
		fmt.Fprintf(&got, "%o %s %s\n", h.Mode, h.Name, data)
	}
	const want = `755 capstan-v0.1.0/ 
755 capstan-v0.1.0/bundles/ 
755 capstan-v0.1.0/bundles/v1.36.3/ 
755 capstan-v0.1.0/bundles/v1.36.3/capstan-kube this is bundles/v1.36.3/capstan-kube
755 capstan-v0.1.0/capstan this is capstan
755 capstan-v0.1.0/capstan-dock this is capstan-dock
`
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
	if _, err := packed("v0.1.0", date, []program{{"capstan", filepath.Join(dir, "missing"), 0o755}}); err == nil {
		t.Error("a program that does not exist was packed")
	}
}
