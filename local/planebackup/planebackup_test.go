package planebackup

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/internal/home"
)

// content returns the contents of a backup's files.
func content() map[string]string {
	return map[string]string{
		snapshotName: strings.Repeat("snapshot", 1000), keysName: "{}", pkiPrefix + "ca.crt": "certificate",
		pkiPrefix + "ca.key": "key", pkiPrefix + "service-accounts.key": "another key",
		choicesName: `{"hosts":3,"listen":{"address":"192.0.2.1:7443","names":["plane.example.com"]}}`,
	}
}

// made returns the path of a backup of files, and its manifest.
func made(t *testing.T, files map[string]string) (path string, m Manifest) {
	t.Helper()
	dir := t.TempDir()
	m = Manifest{Format: format, Time: time.Now(), Capstan: "test"}
	for name, text := range files {
		f := File{Name: name, path: filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))}
		if err := os.WriteFile(f.path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := f.measure(); err != nil {
			t.Fatal(err)
		}
		m.Files = append(m.Files, f)
	}
	path = filepath.Join(dir, "plane.tar")
	if err := write(path, m); err != nil {
		t.Fatal(err)
	}
	return path, m
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	path, m := made(t, content())
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup has mode %v, %v", info.Mode(), err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".plane.tar*")); err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, error %v", left, err)
	}
	into := t.TempDir()
	got, err := extract(path, into)
	if err != nil || got.Capstan != "test" || len(got.Files) != len(m.Files) {
		t.Fatalf("the extracted manifest is %+v, error %v", got, err)
	}
	for name, want := range content() {
		file := filepath.Join(into, name)
		data, err := os.ReadFile(file)
		if err != nil || string(data) != want {
			t.Errorf("the extracted file %s contains %q, error %v", name, data, err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the extracted file %s has mode %v, error %v", name, info.Mode(), err)
		}
	}
	if err := write(path, m); err == nil || hint.Of(err) == "" {
		t.Errorf("writing to a file that exists: got error %v, want one with a hint", err)
	}
}

// TestABackupThatIsNotWhole: a damaged backup is rejected, and nothing is written outside the directory.
func TestABackupThatIsNotWhole(t *testing.T) {
	without := func(name string) map[string]string {
		files := content()
		delete(files, name)
		return files
	}
	with := func(name string) map[string]string {
		files := content()
		files[name] = "evil"
		return files
	}
	cut := func(data []byte) []byte { return data[:len(data)/2] }
	change := func(from, to string) func([]byte) []byte {
		return func(data []byte) []byte { return bytes.Replace(data, []byte(from), []byte(to), 1) }
	}
	for name, c := range map[string]struct {
		files  map[string]string
		change func([]byte) []byte
	}{
		"a backup that is cut off":        {content(), cut},
		"a changed key":                   {content(), change("another key", "ANOTHER KEY")},
		"no snapshot":                     {without(snapshotName), nil},
		"no encryption keys":              {without(keysName), nil},
		"no authority":                    {without(pkiPrefix + "ca.key"), nil},
		"a path that leads out":           {with(pkiPrefix + "../../../evil.key"), nil},
		"an unknown file":                 {with("etcd/member"), nil},
		"an archive that is not a backup": {content(), func([]byte) []byte { return archive(t) }},
		"another format":                  {content(), change(`"format": 1`, `"format": 9`)},
		"an empty file":                   {content(), func([]byte) []byte { return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			path, _ := made(t, c.files)
			if c.change != nil {
				data, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, c.change(data), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			into := filepath.Join(t.TempDir(), "a", "b", "c")
			if _, err := extract(path, into); err == nil || hint.Of(err) == "" {
				t.Errorf("got error %v, want one with a hint", err)
			}
			if _, err := os.Lstat(filepath.Join(into, "../../evil.key")); err == nil {
				t.Error("a file was written outside the directory")
			}
		})
	}
}

// archive returns an archive that is not a backup.
func archive(t *testing.T) []byte {
	t.Helper()
	var data bytes.Buffer
	out := tar.NewWriter(&data)
	if err := out.WriteHeader(&tar.Header{Name: "README", Mode: 0o600, Size: 2}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(out, "hi"); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return data.Bytes()
}

// TestARestoreThatFailsChangesNothing: afterwards there is neither a plane nor a part of one.
func TestARestoreThatFailsChangesNothing(t *testing.T) {
	path, _ := made(t, content())
	dir := home.Dir(filepath.Join(t.TempDir(), "home"))
	o := Options{
		Home: dir, Path: path, Note: func(string) {},
		Step: func(_ string, do func(func(string)) error) error { return do(func(string) {}) },
	}
	o.Tool.Path = "/bin/false"
	if _, err := Restore(t.Context(), o); err == nil {
		t.Fatal("the backup was restored without etcd's program")
	}
	for _, name := range []string{"plane", newName, choicesName} {
		if _, err := os.Lstat(filepath.Join(string(dir), name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the failed restore left %s", name)
		}
	}
	if err := os.Mkdir(dir.Plane(), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), o); err == nil || !strings.Contains(err.Error(), "already has a plane") {
		t.Errorf("restoring into a home with a plane: got error %v", err)
	}
}

// TestTakeChoices: the address to listen on is not restored, because it belonged to another computer.
func TestTakeChoices(t *testing.T) {
	dir := t.TempDir()
	fresh := filepath.Join(dir, newName)
	if err := os.Mkdir(fresh, 0o700); err != nil {
		t.Fatal(err)
	}
	o := Options{Home: home.Dir(dir)}
	if err := o.takeChoices(fresh); err != nil {
		t.Errorf("a backup without choices: %v", err)
	}
	if err := os.WriteFile(filepath.Join(fresh, choicesName), []byte(content()[choicesName]), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := o.takeChoices(fresh); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, choicesName))
	if want := `{"hosts":3,"listen":{"names":["plane.example.com"]}}`; err != nil || string(data) != want {
		t.Errorf("the restored choices are %s, error %v", data, err)
	}
}
