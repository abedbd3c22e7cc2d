// Package docs checks the pages of the repository: link targets exist, and indexes are complete.
package docs
