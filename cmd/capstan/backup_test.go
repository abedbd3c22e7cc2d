package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestBackupsInABucketAreRefused(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	for want, args := range map[string][]string{
		"there is no access key":   {"backup", "list", "--bucket", "backups"},
		"backup.insecure":          {"backup", "list", "--bucket", "backups", "--endpoint", "http://127.0.0.1:1"},
		"not the name of a bucket": {"backup", "restore", "blue", "--bucket", "A/B"},
		"[bucket directory]":       {"backup", "create", "blue", "--bucket", "backups", "--directory", "/x"},
	} {
		if code, _, errOut := capstan(t, "", args...); code == 0 || !strings.Contains(errOut, want) {
			t.Errorf("%v: got exit code %d and %s, want an error with %q", args, code, errOut, want)
		}
	}
}

func TestPlaceOfANextCommand(t *testing.T) {
	for want, args := range map[string][]string{
		"": nil, " --bucket=b --insecure=true": {"--insecure", "--bucket", "b", "--keep", "3"},
		" --directory=/mnt/backups": {"--directory=/mnt/backups"},
	} {
		var place backupPlace
		cmd := &cobra.Command{}
		cmd.Flags().Int("keep", 1, "")
		place.flag(cmd)
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		if got := place.setFlags(cmd); got != want {
			t.Errorf("%v: got %q, want %q", args, got, want)
		}
	}
}
