// Package tutorials holds programs as a newcomer writes them, in the language
// of the client, and a test that they work against the binary.
package tutorials
