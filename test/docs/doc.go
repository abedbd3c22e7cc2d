// Package docs checks the pages of the repository: links lead somewhere, and indexes are complete.
package docs
