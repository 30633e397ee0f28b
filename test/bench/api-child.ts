import './report.ts'
import '../../api/main.ts'
