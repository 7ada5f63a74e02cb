"""A JUnit file by the libraries with which Jenkins, GitLab and GitHub read it."""
