package home

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// file creates a file, or a directory if the name ends in a slash, with exactly these permissions.
func file(t *testing.T, path string, perm fs.FileMode) {
	t.Helper()
	var err error
	if strings.HasSuffix(path, "/") {
		err = os.MkdirAll(path, perm)
	} else {
		err = os.WriteFile(path, []byte("x"), perm)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, perm); err != nil {
		t.Fatal(err)
	}
}

func TestPrepare(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t *testing.T, home string)
		note bool   // whether a note is returned
		err  string // part of the error; empty if there is none
	}{
		"a missing home is created": {make: func(*testing.T, string) {}},
		"a private home stays as it is": {make: func(t *testing.T, home string) {
			file(t, home+"/", 0o700)
			file(t, home+"/other", 0o644)
		}},
		"an empty home that others may read becomes private": {make: func(t *testing.T, home string) {
			file(t, home+"/", 0o755)
		}, note: true},
		"an empty home that others may write becomes private": {make: func(t *testing.T, home string) {
			file(t, home+"/", 0o777)
		}, note: true},
		"a used home that others may read becomes private": {make: func(t *testing.T, home string) {
			file(t, home+"/", 0o755)
			file(t, home+"/lock", 0o600)
		}, note: true},
		"a used home that others may write is refused": {make: func(t *testing.T, home string) {
			file(t, home+"/", 0o770)
			file(t, home+"/lock", 0o600)
		}, err: "look at what is in it, then run: chmod 700"},
		"a directory with other files is refused": {make: func(t *testing.T, home string) {
			file(t, home+"/", 0o755)
			file(t, home+"/photo", 0o600)
		}, err: "contains other files than Capstan's"},
		"a link is refused": {make: func(t *testing.T, home string) {
			file(t, home+"-target/", 0o700)
			if err := os.Symlink(home+"-target", home); err != nil {
				t.Fatal(err)
			}
		}, err: "is a link or a file"},
		"a file is refused": {make: func(t *testing.T, home string) {
			file(t, home, 0o600)
		}, err: "is a link or a file"},
		"a parent directory that everybody may write is refused": {make: func(t *testing.T, home string) {
			file(t, filepath.Dir(home)+"/", 0o777)
		}, err: "chmod o-w"},
		"a secret that is a link is refused": {make: func(t *testing.T, home string) {
			file(t, home+"/", 0o700)
			if err := os.Symlink("/etc/passwd", home+"/kubeconfig"); err != nil {
				t.Fatal(err)
			}
		}, err: "is not a file or directory of this user"},
	} {
		t.Run(name, func(t *testing.T) {
			home := filepath.Join(t.TempDir(), "home")
			c.make(t, home)
			note, err := Dir(home).Prepare()
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got error %v, want one with %q", err, c.err)
				}
				return
			}
			if err != nil || (note != "") != c.note {
				t.Fatalf("got the note %q, error %v", note, err)
			}
			if info, err := os.Lstat(home); err != nil || info.Mode() != fs.ModeDir|0o700 {
				t.Errorf("the home directory is %v, error %v", info, err)
			}
		})
	}
}

// TestPrepareClosesSecrets: keys that others may read become private, whatever the mode of the home is.
func TestPrepareClosesSecrets(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	for _, dir := range []string{"/", "/clusters/", "/plane/", "/plane/pki/", "/plane/encryption/", "/plane/audit/"} {
		file(t, home+dir, 0o755)
	}
	secrets := []string{"/lock", "/kubeconfig", "/clusters/default_demo.kubeconfig", "/plane/pki/ca.key",
		"/plane/encryption/keys.json", "/plane/audit/audit.log"}
	for _, name := range secrets {
		file(t, home+name, 0o644)
	}
	if _, err := Dir(home).Prepare(); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(secrets[1:], "/clusters", "/plane", "/plane/pki", "/plane/encryption", "/plane/audit") {
		if info, err := os.Stat(home + name); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v, error %v", name, info.Mode(), err)
		}
	}
}

// TestPrepareRefusesAHomeOfOthers: Prepare refuses another user's home, even if it runs as root, who could use it.
func TestPrepareRefusesAHomeOfOthers(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	want := "belongs to user 12345"
	if os.Geteuid() == 0 {
		file(t, home+"/", 0o700)
		if err := os.Chown(home, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	} else {
		home, want = "/usr", "belongs to user 0"
	}
	if _, err := Dir(home).Prepare(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want one that names the owner", err)
	}
}
