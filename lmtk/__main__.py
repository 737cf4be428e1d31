from lmtk.cli import main

main()
